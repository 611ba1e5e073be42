"""Snapshot of weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlcomp.interfaces.policy import Policy
from rlcomp.model.copied import CopiedWeights


class Snapshot(nn.Module):
    """Snapshot of a policy's trainable weights at the begin of a phase, for :class:`Restore`.

    Named by several phases, it holds those of the last one. It stands in the checkpoint.

    Args:
        policy: whose weights are copied.
    """

    taken: Tensor

    def __init__(self, *, policy: Policy) -> None:
        super().__init__()
        self.copied = CopiedWeights(policy)
        self.register_buffer("taken", torch.zeros((), dtype=torch.bool))

    def begin_phase(self) -> None:
        """Take the copy."""
        self.copied.take()
        self.taken.fill_(True)
