"""Requests in a checkpoint: pending requests to workers under schedule ``free``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rlcomp.arguments import Fraction, NonNegativeInt
from rlcomp.checkpoint.buffered_rollout import load_rows
from rlcomp.checkpoint.state_fields import field
from rlcomp.cluster.pool import GroupKey
from rlcomp.errors import CheckpointError
from rlcomp.interfaces.cluster import PromptRange, RolloutRequest


def request_state(request: RolloutRequest) -> dict[str, Any]:
    """Return the fields of a request for a checkpoint."""
    part = request.part
    return {
        "number": request.number,
        "progress": request.progress,
        "step": request.step,
        "seeds": list(request.seeds),
        "part": [part.first, part.prompts, part.total],
        "batch": request.batch.to_dict(),
    }


def load_request(state: object) -> RolloutRequest:
    """Restore a request from its saved state.

    Raises:
        CheckpointError: a field is missing or of another type; the message names it.
    """
    part = field(state, "part", list[int])
    if len(part) != 3:
        raise CheckpointError(f"'part' is {part!r:.60}: must be 3 numbers")
    return RolloutRequest(
        number=field(state, "number", NonNegativeInt),
        version=None,
        progress=field(state, "progress", Fraction),
        step=field(state, "step", NonNegativeInt),
        seeds=tuple(field(state, "seeds", list[int])),
        part=PromptRange(*part),
        batch=load_rows(field(state, "batch", dict)),
    )


def check_requests(
    requests: Sequence[RolloutRequest], *, done: Collection[GroupKey], seeds: int, most: int
) -> None:
    """Refuse invalid requests, which would make a worker fail or fill its memory.

    Args:
        requests: each for a single prompt.
        done: the finished groups.
        seeds: number of seeds of a request.
        most: largest number of prompts in a batch.

    Raises:
        CheckpointError: a request is invalid; the message says why.
    """
    names = [*done, *((request.number, request.part.first) for request in requests)]
    if len({*names}) < len(names):
        raise CheckpointError("'asked' and 'done' hold a group twice")
    for request in requests:
        part = request.part
        if not (0 <= part.first < part.total <= most and part.prompts == 1):
            raise CheckpointError(
                f"'part' is {part}: must be one prompt of a batch of at most {most}"
            )
        if len(request.batch) != 1 or len(request.seeds) != seeds:
            raise CheckpointError(
                f"a request has {len(request.batch)} prompts and {len(request.seeds)} seeds: must "
                f"be 1 and {seeds}"
            )
