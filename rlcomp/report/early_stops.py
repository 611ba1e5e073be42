"""Phases that ended early, from a run's ``ended.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rlcomp.errors import DataError
from rlcomp.files.json_lines import is_count, is_number, read_lines
from rlcomp.files.run_record import ENDED

_Fields = Mapping[str, Callable[[object], bool]]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_ROW: _Fields = {"phase": _is_text, "step": is_count, "steps": is_count, "reason": _is_text}
_BEST: _Fields = {"metric": _is_text, "better": _is_text, "value": is_number, "step": is_count}


def read_early_ends(directory: Path) -> list[dict[str, Any]]:
    """Read a run's ``ended.jsonl``, a row a phase; empty if there is none.

    The ``checkpoint`` of a best step is None if it has been deleted.

    Raises:
        DataError: a row lacks a field, or a field has another type; or the phase had no steps left,
            or has ended before.
    """
    rows, phases = read_lines(directory / ENDED), set()
    for number, row in enumerate(rows, 1):
        best = row.get("best")
        valid = _fits(row, _ROW) and (best is None or _fits(best, _BEST))
        if not valid or row["step"] >= row["steps"] or row["phase"] in phases:
            line = f"{directory / ENDED}, line {number}: {json.dumps(row):.100}"
            raise DataError(
                f"{line} tells no phase that ended "
                "early (phase, step, steps, reason, best); take the line out"
            )
        phases.add(row["phase"])
        if best is not None and not _exists(directory, best.get("checkpoint")):
            best["checkpoint"] = None
    return rows


def _fits(row: object, fields: _Fields) -> bool:
    return isinstance(row, dict) and all(fits(row.get(name)) for name, fits in fields.items())


def _exists(directory: Path, checkpoint: object) -> bool:
    return isinstance(checkpoint, str) and (directory / checkpoint).is_dir()


def describe_early_end(row: dict[str, Any]) -> str:
    """Describe an early end of a phase in words.

    Examples:
        >>> describe_early_end({"phase": "rl", "step": 6, "steps": 9, "reason": "enough"})
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
