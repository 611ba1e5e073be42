"""Runs as they lie on disk, written by hand."""

import json

import pytest
import yaml


@pytest.fixture
def make_run(tmp_path):
    """Writes a run: its rows (a list of metrics), its config, its overrides."""

    def make(name, rows, *, seed=0, steps=None, overrides=(), choices=None, samples=(), **config):
        folder = tmp_path / name
        (folder / ".hydra").mkdir(parents=True)
        lines = [
            {"total": n, "phase": "rl", "step": n, "time/step": 2.0} | row
            for n, row in enumerate(rows, 1)
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "samples.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
        planned = len(rows) if steps is None else steps
        phases = {"rl": {"steps": planned, "stages": [], "every": {"evaluation": 1}}}
        whole = {"seed": seed, "directory": str(folder), "resume": "auto", "phases": phases}
        chosen = {"hydra": {"runtime": {"choices": choices or {}}}}
        for file, content in {
            "config": whole | config,
            "overrides": [*overrides, f"seed={seed}"],
            "hydra": chosen,
        }.items():
            (folder / ".hydra" / f"{file}.yaml").write_text(yaml.safe_dump(content))
        return folder

    return make
