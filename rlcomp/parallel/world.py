"""Rank of this process and number of ranks, from torchrun's environment; imports no torch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from rlcomp.errors import UserError


def rank_and_size(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Return the rank and the number of ranks; ``(0, 1)`` for a process without torchrun.

    Raises:
        UserError: the number of ranks is no positive integer; or the rank is missing and there are
            several ranks; or the rank is no integer from 0 to the number of ranks - 1.

    Examples:
        >>> rank_and_size({"WORLD_SIZE": "2", "RANK": "1"})
        (1, 2)
        >>> rank_and_size({})
        (0, 1)
    """
    size = environment.get("WORLD_SIZE") or "1"
    if not re.fullmatch(r"[1-9]\d*", size):
        raise UserError(f"WORLD_SIZE is {size!r}: must be a number of processes; unset it")
    rank = environment.get("RANK", "0" if size == "1" else "")
    if not re.fullmatch(r"\d+", rank) or int(rank) >= int(size):
        raise UserError(
            f"WORLD_SIZE is {size} and RANK is {rank!r}: start all processes by torchrun "
            f"--nproc-per-node {size} -m rlcomp ..., or unset both"
        )
    return int(rank), int(size)


def local_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Return the rank within this machine, which is the index of the rank's GPU.

    Examples:
        >>> local_rank({"LOCAL_RANK": "3"})
        3
    """
    return int(environment.get("LOCAL_RANK", "0"))
