"""Noon: positive advantages only (Noon PPO, PAMA)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.metrics import record


class Noon(Component):
    """Noon ("no negative"): positive advantages only.

    ``A_t <- max(A_t, 0)`` with ``A`` of another estimator.

    Tokens with negative advantage have zero loss and gradient and stay in the denominator of the
    loss.

    Runs the estimator and overwrites its ``advantage`` ``[B, T]``; reads ``response_mask``
    ``[B, T]``, and ``reward_valid`` ``[B]`` if it is there. Records the share of tokens whose
    advantage was negative.

    Args:
        advantage: the estimator; another one: ``advantage@advantage.advantage=leave_one_out``.

    Source:
        He et al. 2025, arXiv:2508.07768 (PAMA: Noon PPO).
    """

    reads = ("response_mask",)
    optional = ("reward_valid",)
    writes = ("advantage",)
    runs = ("advantage",)

    def __init__(self, *, advantage: Component) -> None:
        super().__init__()
        self.advantage = advantage

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run the estimator, then clamp its advantage at 0 from below."""
        batch = self.advantage(batch)
        negative = batch["advantage"] < 0
        record("advantage/dropped_negative", negative, where=batch["response_mask"])
        return write_advantage(batch, batch["advantage"].clamp(min=0))
