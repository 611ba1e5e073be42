"""Requests in a checkpoint: what was asked of workers under schedule ``free`` and is not done."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rlcomp.arguments import Fraction, NonNegativeInt
from rlcomp.checkpoint.buffered_rollout import load_rows
from rlcomp.checkpoint.state_fields import field
from rlcomp.cluster.pool import Name
from rlcomp.errors import CheckpointError
from rlcomp.interfaces.cluster import Part, Request


def state_of(request: Request) -> dict[str, Any]:
    """What a checkpoint holds of a request."""
    part = request.part
    return {
        "number": request.number,
        "progress": request.progress,
        "step": request.step,
        "seeds": list(request.seeds),
        "part": [part.first, part.prompts, part.of],
        "batch": request.batch.to_dict(),
    }


def request_of(state: object) -> Request:
    """A request from its saved state.

    Raises:
        CheckpointError: a field is missing or something else; names it.
    """
    part = field(state, "part", list[int])
    if len(part) != 3:
        raise CheckpointError(f"'part' is {part!r:.60}: must be 3 numbers")
    return Request(
        number=field(state, "number", NonNegativeInt),
        version=None,
        progress=field(state, "progress", Fraction),
        step=field(state, "step", NonNegativeInt),
        seeds=tuple(field(state, "seeds", list[int])),
        part=Part(*part),
        batch=load_rows(field(state, "batch", dict)),
    )


def check_requests(
    requests: Sequence[Request], *, done: Collection[Name], seeds: int, most: int
) -> None:
    """Refuse requests that no run has left: a worker would stumble over them, or fill its memory.

    Args:
        requests: of one prompt each.
        done: the groups that are there already.
        seeds: how many a request has.
        most: prompts of a batch.

    Raises:
        CheckpointError: says what is wrong.
    """
    names = [*done, *((request.number, request.part.first) for request in requests)]
    if len({*names}) < len(names):
        raise CheckpointError("'asked' and 'done' hold a group twice")
    for request in requests:
        part = request.part
        if not (0 <= part.first < part.of <= most and part.prompts == 1):
            raise CheckpointError(f"'part' is {part}: must be one prompt of those of a batch")
        if len(request.batch) != 1 or len(request.seeds) != seeds:
            raise CheckpointError(
                f"a request has {len(request.batch)} prompts and {len(request.seeds)} seeds: must "
                f"be 1 and {seeds}"
            )
