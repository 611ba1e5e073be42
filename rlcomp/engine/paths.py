"""Packed rows as sequences for flash attention: each asks with its own stretch of the list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Paths:
    """Packed tokens as sequences, for kernels that take many of different lengths at once.

    A sequence asks with its own stretch of the list, and sees all that its row has read: what it
    shares with others, and behind it that stretch. So each of its last tokens sees one more.

    Attributes:
        keys: places in the list of what the sequences see, one behind the other, ``[K]``, int64.
        asks: where the stretches begin, and the end of the last, shape ``[S + 1]``, int32.
        sees: where the sequences begin in ``keys``, and its length, shape ``[S + 1]``, int32.
        longest: the most tokens that one asks with, and that one sees.
    """

    keys: Tensor
    asks: Tensor
    sees: Tensor
    longest: tuple[int, int]


def paths_of(ends: Indices, shared: Indices, device: torch.device) -> Paths:
    """The sequences of the rows with a stretch of their own.

    Args:
        ends: of each row, in the order of their tokens, how many it has.
        shared: how many of them it has in common with the one before it.
        device: where the tensors go.

    Examples:
        >>> paths_of(np.array([3, 3]), np.array([0, 2]), torch.device("cpu")).keys
        tensor([0, 1, 2, 0, 1, 3])
    """
    keys, path = list[Indices](), np.zeros(0, dtype=np.int64)
    begin = 0
    for end, common in zip(ends.tolist(), shared.tolist(), strict=True):
        path = np.concatenate([path[:common], np.arange(begin, begin + end - common)])
        begin += end - common
        if end > common:
            keys.append(path)
    asked = (ends - shared)[ends > shared]
    seen = np.array([len(each) for each in keys])
    starts = (np.concatenate([[0], counts.cumsum()]) for counts in (asked, seen))
    asks, sees = (torch.from_numpy(each).int().to(device) for each in starts)
    longest = int(asked.max()), int(seen.max())
    return Paths(torch.from_numpy(np.concatenate(keys)).to(device), asks, sees, longest)
