"""Snapshot of weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlcomp.interfaces.policy import Policy
from rlcomp.model.copied import CopiedWeights


class Snapshot(nn.Module):
    """Action that copies a policy's trainable weights at the begin of a phase.

    :class:`~components.action.restore.Restore` reads the copy. If several phases name it, it
    holds the weights of the last one. It is part of the checkpoint.

    Args:
        policy: the policy whose weights are copied.
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
