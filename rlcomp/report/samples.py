"""Samples of a run, from its ``samples.jsonl``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from rlcomp.arguments import problem
from rlcomp.errors import RlcompWarning
from rlcomp.files.json_lines import is_count, read_lines

# Fields of a sample on a page; only the first three are required.
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
_BY_TOKEN = ("trained", "advantage", "ratio", "entropy", "turn", "turn_reward")


def read_samples(directory: Path) -> list[dict[str, Any]]:
    """Read the samples of a run that have a prompt and a response; skip others.

    A row that no run writes is left out with a warning.

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
        message = (
            f"{file}: samples that no run wrote are left out: {len(faults)} (first: {faults[0]})"
        )
        warnings.warn(message, RlcompWarning, stacklevel=2)
    return samples


def _fault(row: dict[str, Any]) -> str | None:
    """Say what is wrong with a sample; None if nothing is."""
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
            return f"'{name}' is {column!r:.40}: must have one entry a token, {length}"
    return None
