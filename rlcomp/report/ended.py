"""Phases that were ended early, as a run's ``ended.jsonl`` tells them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcomp.errors import DataError
from rlcomp.io.json_lines import read_lines
from rlcomp.io.tracking import ENDED

_Fields = Mapping[str, type | tuple[type, ...]]
_ROW: _Fields = {"phase": str, "step": int, "steps": int, "reason": str}
_BEST: _Fields = {"metric": str, "better": str, "value": (int, float), "step": int}


def ended_phases(directory: Path) -> list[dict[str, Any]]:
    """What a run's ``ended.jsonl`` holds, a row a phase; none where there is none.

    The ``checkpoint`` of a best step is None where it is not there any more.

    Raises:
        DataError: a row lacks a field, or it has another type.
    """
    rows = read_lines(directory / ENDED)
    for number, row in enumerate(rows, 1):
        best = row.get("best")
        if not _fits(row, _ROW) or not (best is None or _fits(best, _BEST)):
            raise DataError(
                f"{directory / ENDED}, line {number}: {row!r:.100} tells no phase that ended "
                "early (phase, step, steps, reason, best); take the line out"
            )
        if best is not None and not _is_there(directory, best.get("checkpoint")):
            best["checkpoint"] = None
    return rows


def _fits(row: object, fields: _Fields) -> bool:
    return isinstance(row, dict) and all(
        isinstance(row.get(name), kind) and not isinstance(row[name], bool)
        for name, kind in fields.items()
    )


def _is_there(directory: Path, checkpoint: object) -> bool:
    return isinstance(checkpoint, str) and (directory / checkpoint).is_dir()


def ended_words(row: dict[str, Any]) -> str:
    """An early end of a phase in words.

    Examples:
        >>> ended_words({"phase": "rl", "step": 6, "steps": 9, "reason": "enough", "best": None})
        'Phase rl ended after step 6 of 9: enough.'
    """
    text = (
        f"Phase {row['phase']} ended after step {row['step']} of {row['steps']}: {row['reason']}."
    )
    best = row.get("best")
    if best is None:
        return text
    text += f" Best: {best['metric']} {best['value']:.4g} after step {best['step']} of the phase"
    text += f" ({best['better']} is better)"
    return f"{text}, in {best['checkpoint']}." if best.get("checkpoint") else f"{text}."
