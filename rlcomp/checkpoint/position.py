"""Position of a run: phase, steps, positions of the trackers, best steps, digests of the inputs."""

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
from rlcomp.checkpoint.state_fields import check_fields, field
from rlcomp.errors import CheckpointError
from rlcomp.files.digests import MAX_MARKS

_STEP = re.compile(r"step-(\d{8,11})")
# The name of a checkpoint has at most 11 digits of steps.
_Steps = Annotated[int, Lt(10**11)]


def step_name(position: Mapping[str, Any]) -> str:
    """Return the name of the checkpoint after a step, from its ``total``.

    Examples:
        >>> step_name({"total": 40})
        'step-00000040'
    """
    return f"step-{position['total']:08d}"


def parse_step(name: str) -> int | None:
    """Return the total steps in the name of a checkpoint; None for another name."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None


def check_position(position: object, name: str) -> dict[str, Any]:
    """Return the saved position of a run after checking it.

    Args:
        position: ``phase`` (index), ``step`` (steps of this phase), ``total`` (steps of the run),
            ``trackers``; perhaps ``seed``, ``best`` and ``inputs``.
        name: name of the checkpoint. If it states a step, this must be ``total``.

    Raises:
        CheckpointError: a field is missing, unknown, of another type or out of range, or the name
            states another step.
    """
    check_fields(position, ("phase", "step", "total", "trackers"), ("seed", "best", "inputs"))
    assert isinstance(position, dict)
    for count in ("phase", "step", "total"):
        field(position, count, NonNegativeInt)
    field(position, "total", _Steps)
    step, total = position["step"], position["total"]
    if step > total:
        raise CheckpointError(f"'step' is {step}, but 'total' is {total}")
    if parse_step(name) not in (None, total):
        raise CheckpointError(f"'total' is {total}, but the checkpoint's name is {name}")
    if "seed" in position:
        field(position, "seed", NonNegativeInt)
    if "inputs" in position:
        field(position, "inputs", dict[str, dict[str, str]])
    for tracker in field(position, "trackers", dict):
        _check_tracker(position["trackers"], tracker)
    for phase in field(position, "best", dict) if "best" in position else ():
        _check_best(position["best"], phase, total)
    return position


def check_within(path: Path, position: Mapping[str, Any], phases: Mapping[str, int]) -> None:
    """Check that a position lies within the phases of a run.

    Args:
        path: the checkpoint's path, for the message.
        position: the run's position.
        phases: number of steps of each phase, by name, in the order of the run.

    Raises:
        CheckpointError: the position is behind the end of a phase, or of the run.
    """
    phase, step = position["phase"], position["step"]
    if phase > len(phases) or (phase == len(phases) and step):
        raise CheckpointError(
            f"{path} is at step {step} of phase {phase + 1}, but the run has {len(phases)} "
            "phases: name an older checkpoint (resume=PATH), or resume with its phases"
        )
    name, steps = [*phases.items(), ("", 0)][phase]
    if step > steps:
        raise CheckpointError(
            f"{path} is at step {step} of phase '{name}', which has {steps} steps: set "
            f"phases.{name}.steps to {step} or more, or name an older checkpoint (resume=PATH)"
        )


def _check_tracker(trackers: dict[str, Any], tracker: str) -> None:
    """Check the position of a tracker: of rlcomp's trackers its fields, else only its type."""
    position = field(trackers, tracker, dict)
    if tracker == "json_lines":
        _check_lines(position)
    if tracker == "display" and "latest" in position:
        _check_display(field(position, "latest", dict))
    if tracker == "wandb":
        run = field(position, "id", str | None)
        if run is not None and not re.fullmatch(r"[\w-]{1,64}", run):
            raise CheckpointError(f"'id' is {run!r:.60}: no id of a W&B run")
        for name, kind in (("spent", NonNegativeFloat), ("best", float)):
            numbers = field(position, name, dict) if name in position else {}
            for key in numbers:
                field(numbers, key, kind)


def _check_display(latest: dict[str, Any]) -> None:
    """Check that the values of the display are numbers, or NaN."""
    for name, value in latest.items():
        if not isinstance(value, (int, float)):
            raise CheckpointError(f"'latest' of {name!r:.40} is {value!r:.40}: must be a number")


def _check_lines(record: dict[str, Any]) -> None:
    """Check the sizes and digests of the record's files, and the phases that ended early."""
    check_fields(record, ("metrics", "samples"), ("ended", "digests"))
    for file in ("metrics", "samples"):
        field(record, file, NonNegativeInt)
    if "digests" in record:
        _check_digests(record)
    for row in field(record, "ended", list) if "ended" in record else ():
        _check_ended(row)


def _check_digests(record: dict[str, Any]) -> None:
    """Check that the marks of each file increase, and that the last is at the file's size."""
    check_fields(field(record, "digests", dict), ("metrics", "samples"))
    for file in ("metrics", "samples"):
        marks = field(record["digests"], file, list)
        sizes = [0, *map(_mark_size, marks)]
        if sizes != sorted({*sizes}) or sizes[-1] != record[file] or len(marks) > MAX_MARKS:
            raise CheckpointError(f"'digests' of '{file}' do not lead to its size, {record[file]}")


def _mark_size(mark: object) -> int:
    """Return the size of a mark after checking the mark."""
    fault = problem(tuple[PositiveInt, str], mark)
    if fault or not re.fullmatch("[0-9a-f]{64}", mark[1]):  # type: ignore[index]
        raise CheckpointError(f"'digests' hold {mark!r:.60}: must be a size and a SHA-256")
    return int(mark[0])  # type: ignore[index]


def _check_ended(row: object) -> None:
    """Check the record of a phase that ended early."""
    for name in ("phase", "reason"):
        field(row, name, NonEmptyText)
    for name in ("total", "step", "steps"):
        field(row, name, PositiveInt)
    field(row, "best", dict[str, object] | None)


def _check_best(best: dict[str, Any], phase: str, total: int) -> None:
    """Check the record of the best step of a phase."""
    record = field(best, phase, dict)
    check_fields(record, ("phase", "metric", "better", "value", "step", "total"))
    for name, kind in (("metric", NonEmptyText), ("value", float), ("step", PositiveInt)):
        field(record, name, kind)
    field(record, "better", Literal["higher", "lower"])
    if record["phase"] != phase or field(record, "total", PositiveInt) > total:
        raise CheckpointError(f"the best step of '{phase}' is {record!r:.100}")
