"""Model card of an exported model: where it comes from, as Markdown with a YAML head."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig

from rlcomp.io.attempt import attempt_in
from rlcomp.io.json_lines import read_metrics
from rlcomp.io.manifest import written_in
from rlcomp.io.place import step_of

# What an evaluation on held-out prompts is told by.
_HELD_OUT = "evaluation/"


def model_card(
    checkpoint: Path, config: DictConfig, *, base: str | None, pipeline: str = "text-generation"
) -> str:
    """The text of ``README.md``.

    Args:
        checkpoint: that was exported; its run's directory is two above it.
        config: of the run.
        base: folder or hub name of the model that it was trained from; None for none.
        pipeline: of transformers.
    """
    run = checkpoint.parent.parent
    choices, command = _asked(run)
    step = step_of(checkpoint.name)
    head = {
        "library_name": "transformers",
        "pipeline_tag": pipeline,
        "tags": ["rlcomp", "reinforcement-learning"],
        **({"base_model": base} if base else {}),
    }
    rows = {
        "recipe": choices.get("recipe", "by hand"),
        "command": f"`{command}`",
        "seed": config.get("seed"),
        "step": step,
        "trained from": base or "random weights",
        **held_out(run, step),
        **written_in(checkpoint),
    }
    table = [f"| {name} | {_cell(value)} |" for name, value in rows.items() if value is not None]
    return "\n".join(
        [
            "---",
            yaml.safe_dump(head, sort_keys=False).strip(),
            "---",
            f"# {run.resolve().name}",
            "",
            "Trained with [rlcomp](https://pypi.org/project/rlcomp/).",
            "",
            "| | |",
            "|---|---|",
            *table,
            "",
            *_chosen(choices),
        ]
    )


def _asked(run: Path) -> tuple[Mapping[str, str], str]:
    """The options that a run chose, and its command line."""
    attempt = attempt_in(run)
    given = [word for word in attempt.overrides if not word.startswith("directory=")]
    return attempt.choices, " ".join(["rlcomp", *given])


def held_out(run: Path, step: int | None) -> dict[str, str]:
    """The last results on held-out prompts up to a step, by their names in the metrics."""
    file = run / "metrics.jsonl"
    rows = read_metrics(file) if file.is_file() else []
    known = [row for row in rows if step is None or row.get("total", 0) <= step]
    found: dict[str, str] = {}
    for row in known:
        found |= {
            name: f"{value:.4g}"
            for name, value in row.items()
            if name.startswith(_HELD_OUT) and isinstance(value, (int, float))
        }
    return found


def _chosen(choices: Mapping[str, str]) -> Sequence[str]:
    """The parts of the run that are no empty slots."""
    parts = {
        group: option
        for group, option in choices.items()
        if option not in (None, "none") and not group.startswith("hydra")
    }
    return ["Parts: " + ", ".join(f"`{group}={option}`" for group, option in parts.items()), ""]


def _cell(value: Any) -> str:  # noqa: ANN401
    text = value if isinstance(value, str) else json.dumps(value)
    return " ".join(text.split()).replace("|", "\\|")
