"""Readers of a run's ``samples.jsonl`` and ``ended.jsonl``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rlcomp.arguments import problem
from rlcomp.errors import DataError, RlcompWarning
from rlcomp.files.json_lines import is_count, is_number, read_lines
from rlcomp.files.run_record import ENDED

# Types of a sample's fields; only ``prompt``, ``response`` and ``total`` are required.
_NUMBERS = list[float | None] | None
_FIELDS = {
    "prompt": str,
    "response": str,
    "phase": str,
    "step": int,
    "answer": str | None,
    "pieces": list[str],
    "group_id": int | str,
    "tokens": list[str],
    "advantage": _NUMBERS,
    "ratio": _NUMBERS,
    "entropy": _NUMBERS,
    "reward": float | None,
    "rewards": dict[str, float | None] | None,
    "facts": dict[str, float | None] | None,
    "turn": list[int],
    "turn_reward": _NUMBERS,
    "correct": bool | None,
    "truncated": bool | None,
}
# Fields with an entry for each token of ``tokens``. With ``tokens``, ``trained`` (True for tokens
# that the policy is trained on) is required; the other fields may be missing or empty.
_BY_TOKEN = ("trained", "advantage", "ratio", "entropy", "turn", "turn_reward")


def read_samples(directory: Path) -> list[dict[str, Any]]:
    """Read the samples of a run with a prompt and a response; warn of malformed ones.

    Raises:
        DataError: a line is no object (:func:`rlcomp.files.json_lines.read_lines`).
    """
    file = directory / "samples.jsonl"
    samples, faults = [], []
    for number, row in enumerate(read_lines(file), 1):
        if "prompt" in row and "response" in row:
            fault = _fault(row)
            samples += [] if fault else [row]
            faults += [f"line {number}, {fault}"] if fault else []
    if faults:
        message = f"{file}: malformed samples are left out: {len(faults)} (first: {faults[0]})"
        warnings.warn(message, RlcompWarning, stacklevel=2)
    return samples


def _fault(row: dict[str, Any]) -> str | None:
    """Return the fault of a sample; None if it has none."""
    if not is_count(row.get("total")):
        return f"'total' is {row.get('total')!r:.40}: must be a number of steps"
    for name, kind in _FIELDS.items():
        if name in row and (fault := problem(kind, row[name])):
            return f"'{name}' is {row[name]!r:.40}: {fault}"
    length = len(row.get("tokens", ()))
    for name in _BY_TOKEN if length else ():
        column = row.get(name)
        misfit = not isinstance(column, list) or len(column) != length
        if misfit and (column or name == "trained"):
            return f"'{name}' is {column!r:.40}: must have {length} entries, one per token"
    return None


_Fields = Mapping[str, Callable[[object], bool]]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_EARLY_END: _Fields = {"phase": _is_text, "step": is_count, "steps": is_count, "reason": _is_text}
_BEST: _Fields = {"metric": _is_text, "better": _is_text, "value": is_number, "step": is_count}


def read_early_ends(directory: Path) -> list[dict[str, Any]]:
    """Read a run's ``ended.jsonl``, one row for each phase; empty without the file.

    The ``checkpoint`` of a best step is None if it has been deleted.

    Raises:
        DataError: a field of a row is missing or has another type, the row's phase had no steps
            left, or an earlier row has the same phase.
    """
    rows, phases = read_lines(directory / ENDED), set()
    for number, row in enumerate(rows, 1):
        best = row.get("best")
        valid = _has_fields(row, _EARLY_END) and (best is None or _has_fields(best, _BEST))
        if not valid or row["step"] >= row["steps"] or row["phase"] in phases:
            raise DataError(
                f"{directory / ENDED}, line {number}: {json.dumps(row):.100} is no early end of a "
                "phase (phase, step, steps, reason, best); take the line out"
            )
        phases.add(row["phase"])
        checkpoint = best and best.get("checkpoint")
        if best and not (isinstance(checkpoint, str) and (directory / checkpoint).is_dir()):
            best["checkpoint"] = None
    return rows


def _has_fields(row: object, fields: _Fields) -> bool:
    return isinstance(row, dict) and all(check(row.get(name)) for name, check in fields.items())


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
