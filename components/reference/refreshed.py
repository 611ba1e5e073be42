"""Refreshed reference policy (TR-DPO): a copy mixed with the policy every few batches."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from components.reference.frozen import Frozen
from rlcomp.arguments import PositiveInt, Probability
from rlcomp.interfaces.policy import ScoresRows


class Refreshed(Frozen):
    """Refreshed reference policy (TR-DPO).

    ``theta_ref <- alpha * theta + (1 - alpha) * theta_ref`` every ``period`` batches, with
    ``alpha`` = ``mix``.

    The KL then limits the speed of the policy, not its distance.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient.

    Args:
        policy: the model to stay close to.
        period: batches between two refreshments.
        mix: share of the policy; 1 copies the policy.

    Source:
        Gorbatovski et al. 2024 (TR-DPO), arXiv:2404.09656, eqs. 5 and 6.
    """

    calls: Tensor

    def __init__(
        self, *, policy: ScoresRows, period: PositiveInt = 512, mix: Probability = 0.6
    ) -> None:
        super().__init__(policy=policy)
        self.period = period
        self.mix = mix
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def begin_phase(self) -> None:
        """Take a new copy and set the count to 0."""
        super().begin_phase()
        self.calls.zero_()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Refresh the copy after every ``period`` training batches, then score."""
        if self.training:  # evaluators' scoring must not refresh it
            if int(self.calls) and int(self.calls) % self.period == 0:
                self.copied.follow(self.mix)
            self.calls += 1
        return super().forward(batch)
