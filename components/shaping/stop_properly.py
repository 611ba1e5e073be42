"""Stop-properly penalty (ProRL) on truncated responses."""

from __future__ import annotations

from typing import Annotated

from tensordict import TensorDict

from rlcomp.arguments import Le
from rlcomp.component import Component
from rlcomp.functional.length import stop_properly
from rlcomp.interfaces.shaping import write_shaped_reward


class StopProperly(Component):
    """Stop-properly penalty (ProRL).

    For truncated responses ``R <- coef * R`` if ``coef >= 0``, else ``R <- coef``.

    Scaling a negative reward makes it smaller: with rewards -1 and 1 use a negative ``coef``.

    Reads ``reward``, ``reward_valid``, ``truncated`` ``[B]``, ``rewards``. Writes ``reward``
    ``[B]`` and the part ``stop_properly`` of ``rewards``, the change.

    Args:
        coef: factor or value, at most 1; with 0 truncated answers get 0.

    Source:
        Liu et al. 2025 (ProRL), arXiv:2505.24864.
    """

    reads = ("reward", "rewards", "reward_valid", "truncated")
    writes = ("reward", "rewards")

    def __init__(self, *, coef: Annotated[float, Le(1)] = 0.0) -> None:
        super().__init__()
        self.coef = coef

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reward."""
        reward = stop_properly(batch["reward"], batch["truncated"], self.coef)
        return write_shaped_reward(batch, "stop_properly", reward - batch["reward"], reward)
