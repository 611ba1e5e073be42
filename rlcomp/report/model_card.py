"""Model card of an exported model: its origin, as Markdown with a YAML head."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig, OmegaConf

from rlcomp.arguments import problem
from rlcomp.checkpoint.manifest import read_environment
from rlcomp.checkpoint.position import parse_step
from rlcomp.errors import CheckpointError
from rlcomp.files.json_lines import read_metrics
from rlcomp.files.run_record import RUN_RECORD
from rlcomp.files.untrusted import read_saved_config
from rlcomp.model.load_model import is_run
from rlcomp.trackers.metric_names import held_out_rewards

_HELD_OUT = "evaluation/"
_NAME = re.compile(r"[\w@./+-]{1,80}")
_HUB_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?")
# Words in the names of settings with a secret value.
_SECRET = {"key", "token", "secret", "password", "credentials"}


def model_card(
    checkpoint: Path, config: DictConfig, *, base: str | None, pipeline: str = "text-generation"
) -> str:
    """Return the text of ``README.md``; texts from a run are escaped as plain text.

    Args:
        checkpoint: the exported checkpoint.
        config: config of its run.
        base: source of the initial model; None: random weights.
        pipeline: transformers pipeline.

    Raises:
        CheckpointError: the run's ``run.yaml`` was not written by rlcomp.
    """
    run, step = _run_of(checkpoint), parse_step(checkpoint.name)
    choices, words = _run_settings(run) if run else ({}, [])
    head = {
        "library_name": "transformers",
        "pipeline_tag": pipeline,
        "tags": ["rlcomp", "reinforcement-learning"],
        **({"base_model": base} if base and _on_hub(base) else {}),
    }
    rows = {
        "recipe": choices.get("recipe"),
        "command": " ".join(["rlcomp", *map(_without_secrets, words)]) if run else None,
        "seed": config.get("seed"),
        "step": step,
        "trained from": _origin(config, base),
        **(held_out(run, step) if run else {}),
        **read_environment(checkpoint),
    }
    parts = ", ".join(f"`{group}={option}`" for group, option in choices.items())
    return "\n".join(
        [
            "---",
            yaml.safe_dump(head, sort_keys=False).strip(),
            "---",
            "# A model trained with rlcomp",
            "",
            "| | |",
            "|---|---|",
            *(f"| {_escape(k)} | {_escape(v)} |" for k, v in rows.items() if v is not None),
            "",
            *([f"Parts: {parts}", ""] if parts else []),
        ]
    )


def _run_of(checkpoint: Path) -> Path | None:
    """Return the run's directory if the checkpoint is inside one: RUN/checkpoints[/best]."""
    home = checkpoint.resolve().parent
    home = home.parent if home.name == "best" else home
    run = home.parent
    return run if home.name == "checkpoints" and (run / RUN_RECORD).is_file() else None


def _run_settings(run: Path) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return a run's chosen options without empty slots, and the words of its command line."""
    file = run / RUN_RECORD
    # trust keeps ${...}, and resolve=False leaves it as text: nothing of the file is evaluated.
    record = OmegaConf.to_container(read_saved_config(file, trust=True), resolve=False)
    assert isinstance(record, dict)
    words, choices = record.get("overrides", []), record.get("choices", {})
    if problem(list[str], words) or not isinstance(choices, dict):
        raise CheckpointError(f"{file} is not a record that rlcomp wrote: delete it")
    parts = {
        str(group): str(option)
        for group, option in choices.items()
        if option not in (None, "none") and not str(group).startswith("hydra")
    }
    plain = {g: o for g, o in parts.items() if _NAME.fullmatch(g) and _NAME.fullmatch(o)}
    return plain, [word for word in words if not word.startswith("directory=")]


def _without_secrets(word: str) -> str:
    """Remove secrets, and the folders above a path, from an override."""
    name, equals, value = word.partition("=")
    if _SECRET & {*re.split(r"[._]", name.lower())}:
        return f"{name}=..."
    if value.startswith(("/", "~")):
        value = f".../{Path(value).name}"
    return f"{name}{equals}{value}"


def _on_hub(base: str) -> bool:
    return _HUB_NAME.fullmatch(base) is not None and not Path(base).exists()


def _origin(config: DictConfig, base: str | None) -> str:
    if base is None:
        target = OmegaConf.select(config, "model._target_")
        return "random weights" if str(target).endswith(".causal_lm") else f"{target}"
    if _on_hub(base):
        return base
    return f"{'a run' if is_run(base) else 'a folder'}, {Path(base).name}"


def held_out(run: Path, step: int | None) -> dict[str, str]:
    """Return the last results on held-out prompts up to a step, with 95 % intervals, by metric."""
    file = run / "metrics.jsonl"
    results: dict[str, str] = {}
    for row in read_metrics(file) if file.is_file() else []:
        if step is None or row.get("total", 0) <= step:
            values = {
                name: f"{value:.4g}"
                for name, value in _rename_rewards(row).items()
                if name.startswith(_HELD_OUT) and isinstance(value, (int, float))
            }
            results |= _write_intervals(values)
    return results


def _rename_rewards(row: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the held-out mean of a reward without verdicts to the reward's name."""
    values = dict(row)
    for name in held_out_rewards(row):
        for end in ("", "_low", "_high"):
            accuracy_name = f"{_HELD_OUT}{name.rpartition('/')[2]}{end}"
            if accuracy_name in values:
                values[f"{name}{end}"] = values.pop(accuracy_name)
    return values


def _write_intervals(values: dict[str, str]) -> dict[str, str]:
    """Join each number of a row with its ``_low`` and ``_high``."""
    estimates = [name for name in values if {f"{name}_low", f"{name}_high"} <= {*values}]
    ends = {f"{name}_{end}" for name in estimates for end in ("low", "high")}
    texts = {
        name: f"{values[name]} ({values[f'{name}_low']} to {values[f'{name}_high']})"
        for name in estimates
    }
    return {name: text for name, text in (values | texts).items() if name not in ends}


def _escape(value: object) -> str:
    """Return one line of plain text for a cell of Markdown."""
    text = html.escape(" ".join(str(value).split())[:500], quote=False)
    return re.sub(r"([\\`*\[\]|~])", r"\\\1", text)
