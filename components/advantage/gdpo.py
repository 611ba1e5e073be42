"""GDPO advantage: rewards standardised one by one per group, then summed."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.errors import ConfigError, nearest
from rlcomp.functional.group import gdpo_advantage
from rlcomp.interfaces.advantage import broadcast


class Gdpo(Component):
    """GDPO advantage: decoupled group normalisation of several rewards.

    ``A_i = S_i / (std(S) + eps)`` with
    ``S_i = sum_k w_k (R_ik - mean_g(R_k)) / (std_g(R_k) + eps)``; ``std(S)`` over the batch.

    If the rewards were summed first, one of small variance would vanish beside one of large
    variance. A row that lacks a reward with non-zero weight (NaN) is excluded from all statistics.

    Reads ``rewards`` (``{name: [B]}``, NaN where missing), ``reward_valid``, ``group_id`` ``[B]``,
    ``response_mask`` ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 where no reward differs within
    the group, in groups of one, and where a reward is invalid or missing.

    Args:
        weights: w_k by name of the reward; 0 leaves one out.
        epsilon: eps, added to both standard deviations.

    Raises:
        ConfigError: the names of the weights are not those of the rewards.

    Source:
        Liu et al. 2026, arXiv:2601.05242 (GDPO).
    """

    reads = ("rewards", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def __init__(self, *, weights: dict[str, float], epsilon: PositiveFloat = 1e-4) -> None:
        super().__init__()
        if not any(weights.values()):
            raise ConfigError(
                f"Gdpo: weights is {weights or 'empty'}: give a factor for each part of the "
                "reward, not 0 for all"
            )
        self.weights = dict(weights)
        self.epsilon = epsilon

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        rewards = dict(batch["rewards"].items())
        _check_names(self.weights, rewards)
        weights = {name: weight for name, weight in self.weights.items() if weight}
        missing = torch.stack([rewards[name].isnan() for name in weights]).any(0)
        advantage = gdpo_advantage(
            rewards, weights, batch["group_id"], batch["reward_valid"] & ~missing, self.epsilon
        )
        return broadcast(batch, advantage)


def _check_names(weights: Iterable[str], rewards: Iterable[str]) -> None:
    weights, rewards = list(weights), list(rewards)
    for name in weights:
        if name not in rewards:
            raise ConfigError(f"Gdpo: weights names {name!r}{nearest(name, rewards)}")
    for name in rewards:
        if name not in weights:
            raise ConfigError(
                f"Gdpo: the reward {name!r} has no weight: set advantage.weights.{name} (0 leaves "
                "it out)"
            )
