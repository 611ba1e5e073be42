"""Progress of a run: phase, steps, trackers' positions, best steps, digests of its inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Lt

from rlcomp.arguments import (
    NonEmptyText,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    problem,
)
from rlcomp.checkpoint.state_fields import field, names
from rlcomp.errors import CheckpointError
from rlcomp.files.digests import MAX_MARKS

_STEP = re.compile(r"step-(\d{8,11})")
# The name of a checkpoint cannot hold more steps.
_Steps = Annotated[int, Lt(10**11)]


def step_name(place: Mapping[str, Any]) -> str:
    """Return the name of the checkpoint after a step, from its ``total``.

    Examples:
        >>> step_name({"total": 40})
        'step-00000040'
    """
    return f"step-{place['total']:08d}"


def step_of(name: str) -> int | None:
    """Return the total steps in the name of a checkpoint; None if the name is no checkpoint's."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None


def check_progress(place: object, name: str) -> dict[str, Any]:
    """Check a position that was read from a checkpoint, and return it.

    Args:
        place: the position.
        name: of the checkpoint; if it has a step, it must be the position's.

    Raises:
        CheckpointError: a field is missing, of another type or out of range; names it.
    """
    names(place, ("phase", "step", "total", "trackers"), ("seed", "best", "inputs"))
    assert isinstance(place, dict)
    for count in ("phase", "step", "total"):
        field(place, count, NonNegativeInt)
    field(place, "total", _Steps)
    if place["step"] > place["total"]:
        raise CheckpointError(f"'step' is {place['step']}, but 'total' is {place['total']}")
    if step_of(name) not in (None, place["total"]):
        raise CheckpointError(f"'total' is {place['total']}, but the checkpoint's name is {name}")
    if "seed" in place:
        field(place, "seed", NonNegativeInt)
    if "inputs" in place:
        field(place, "inputs", dict[str, dict[str, str]])
    for tracker in field(place, "trackers", dict):
        _check_tracker(place["trackers"], tracker)
    for phase in field(place, "best", dict) if "best" in place else ():
        _check_best(place["best"], phase, place["total"])
    return place


def check_within(where: Path, place: Mapping[str, Any], phases: Mapping[str, int]) -> None:
    """Check that a position lies within the phases of a run.

    Args:
        where: the checkpoint, for the message.
        place: the position.
        phases: steps by name.

    Raises:
        CheckpointError: the position is behind the end of a phase, or of the run.
    """
    phase, step = place["phase"], place["step"]
    if phase > len(phases) or (phase == len(phases) and step):
        raise CheckpointError(
            f"{where} is at step {step} of phase {phase + 1}, but the run has {len(phases)} "
            "phases: name an older checkpoint (resume=PATH), or resume with its phases"
        )
    name, steps = [*phases.items(), ("", 0)][phase]
    if step > steps:
        raise CheckpointError(
            f"{where} is at step {step} of phase '{name}', which has {steps} steps: set "
            f"phases.{name}.steps to {step} or more, or name an older checkpoint (resume=PATH)"
        )


def _check_tracker(trackers: dict[str, Any], tracker: str) -> None:
    """Check the position of one of our own trackers; others may hold anything."""
    position = field(trackers, tracker, dict)
    if tracker == "json_lines":
        _check_lines(position)
    if tracker == "display" and "latest" in position:
        _check_shown(field(position, "latest", dict))
    if tracker == "wandb":
        run = field(position, "id", str | None)
        if run is not None and not re.fullmatch(r"[\w-]{1,64}", run):
            raise CheckpointError(f"'id' is {run!r:.60}: no id of a W&B run")
        for name, kind in (("spent", NonNegativeFloat), ("best", float)):
            numbers = field(position, name, dict) if name in position else {}
            for key in numbers:
                field(numbers, key, kind)


def _check_shown(latest: dict[str, Any]) -> None:
    """Check that the display shows numbers; NaN is one."""
    for name, value in latest.items():
        if not isinstance(value, (int, float)):
            raise CheckpointError(f"'latest' of {name!r:.40} is {value!r:.40}: must be a number")


def _check_lines(record: dict[str, Any]) -> None:
    """Check the sizes, digests and ends of the record's files."""
    names(record, ("metrics", "samples"), ("ended", "digests"))
    for file in ("metrics", "samples"):
        field(record, file, NonNegativeInt)
    if "digests" in record:
        _check_digests(record)
    for row in field(record, "ended", list) if "ended" in record else ():
        _check_ended(row)


def _check_digests(record: dict[str, Any]) -> None:
    """Check that the marks of each file grow up to its size."""
    names(field(record, "digests", dict), ("metrics", "samples"))
    for file in ("metrics", "samples"):
        marks = field(record["digests"], file, list)
        sizes = [0, *(_size_of(mark) for mark in marks)]
        if sizes != sorted({*sizes}) or sizes[-1] != record[file] or len(marks) > MAX_MARKS:
            raise CheckpointError(f"'digests' of '{file}' do not lead to its size, {record[file]}")


def _size_of(mark: object) -> int:
    fault = problem(tuple[PositiveInt, str], mark)
    if fault or not re.fullmatch("[0-9a-f]{64}", mark[1]):  # type: ignore[index]
        raise CheckpointError(f"'digests' hold {mark!r:.60}: must be a size and a SHA-256")
    return int(mark[0])  # type: ignore[index]


def _check_ended(row: object) -> None:
    """Check the row of a phase that was ended early."""
    for name in ("phase", "reason"):
        field(row, name, NonEmptyText)
    for name in ("total", "step", "steps"):
        field(row, name, PositiveInt)
    field(row, "best", dict[str, object] | None)


def _check_best(best: dict[str, Any], phase: str, total: int) -> None:
    """Check the record of the best step of a phase."""
    record = field(best, phase, dict)
    names(record, ("phase", "metric", "better", "value", "step", "total"))
    for name, kind in (("metric", NonEmptyText), ("value", float), ("step", PositiveInt)):
        field(record, name, kind)
    field(record, "better", Literal["higher", "lower"])
    if record["phase"] != phase or field(record, "total", PositiveInt) > total:
        raise CheckpointError(f"the best step of '{phase}' is {record!r:.100}")
