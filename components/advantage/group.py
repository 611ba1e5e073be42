"""Advantages against the other responses of a group.

A dense ``token_reward``, if any, adds its reward-to-go to the advantage of every valid row.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.errors import ConfigError, nearest
from rlcomp.functional.group import (
    gdpo_advantage,
    gpg_advantage,
    group_batch_standardised,
    group_centred,
    group_standardised,
    leave_one_out,
    length_weighted,
    mean_normalised,
)
from rlcomp.functional.group_statistics import Groups
from rlcomp.interfaces.advantage import broadcast, per_episode
from rlcomp.metrics import record


class GroupMean(Component):
    """Dr. GRPO advantage: group mean baseline, no division by the std.

    ``A_i = R_i - mean_g(R)``.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Source:
        Liu et al. 2025, arXiv:2503.20783 (Dr. GRPO), section 3.2.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "trajectory_id")
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        return broadcast(batch, per_episode(batch, group_centred))


class GroupMeanStd(Component):
    """GRPO advantage.

    ``A_i = (R_i - mean_g(R)) / (std_g(R) + eps)`` with the unbiased std (n - 1).

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Args:
        epsilon: eps, in reward units; 1e-6 in verl, 1e-4 in TRL.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 3.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "trajectory_id")
    min_group_size = 2

    def __init__(self, *, epsilon: PositiveFloat = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        estimate = partial(group_standardised, epsilon=self.epsilon)
        return broadcast(batch, per_episode(batch, estimate))


class GroupBatchStd(Component):
    """GRPO advantage with group mean and batch std.

    ``A_i = (R_i - mean_g(R)) / (std_B(R) + eps)`` with ``std_B`` the unbiased std of all valid
    rewards of the batch.

    Unlike GRPO, no group is divided by its own small std, which would up-weight very easy and very
    hard prompts.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Args:
        epsilon: eps, in reward units.

    Source:
        Liu et al. 2025, arXiv:2508.08221, section 4; ``scale_rewards="batch"`` in TRL.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "trajectory_id")
    min_group_size = 2

    def __init__(self, *, epsilon: PositiveFloat = 1e-4) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        estimate = partial(group_batch_standardised, epsilon=self.epsilon)
        return broadcast(batch, per_episode(batch, estimate))


class LeaveOneOut(Component):
    """RLOO advantage: leave-one-out baseline.

    ``A_i = R_i - (1 / (n - 1)) sum_{j != i} R_j = (n / (n - 1)) (R_i - mean_g(R))``.

    Unbiased: a response is not part of its own baseline.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Source:
        Ahmadian et al. 2024, arXiv:2402.14740, eq. 8; Kool et al. 2019.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "trajectory_id")
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        return broadcast(batch, per_episode(batch, leave_one_out))


class LengthWeightedBaseline(Component):
    """OPO advantage: length-weighted optimal baseline.

    ``A_i = R_i - sum_j n_j R_j / sum_j n_j`` over the group, ``n_j`` tokens in response ``j``.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards. Records ``advantage/baseline_shift``, the distance of the baseline from the mean reward
    of the group, in reward units.

    Source:
        Hao et al. 2025, arXiv:2505.23585 (OPO).
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        reward, group_id, valid = batch["reward"], batch["group_id"], batch["reward_valid"]
        advantage = length_weighted(reward, batch["response_mask"].sum(1), group_id, valid)
        shift = group_centred(reward, group_id, valid) - advantage
        record("advantage/baseline_shift", shift.abs(), where=valid)
        return broadcast(batch, advantage)


class MaxRL(Component):
    """MaxRL advantage: deviation from the group's mean reward, divided by the mean.

    ``A_i = (R_i - mean_g(R)) / mean_g(R)``.

    For rewards 0 and 1 with success rate p the expected gradient is the gradient of ``log p``
    (maximum likelihood) up to order ``n - 1`` in ``1 - p``. By the sum of ``|A_i|``, a prompt with
    one success in ``n`` answers weighs ``n - 1`` times as much as a prompt with ``n - 1``
    successes; GRPO gives both the same weight.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards. Records ``advantage/positive``, the mean positive advantage (``1 / p - 1`` for a
    success), and ``advantage/rare``, the mean positive advantage in groups whose mean is below half
    of their best reward.

    Raises:
        NumericalError: a valid reward is negative.

    Source:
        Tajwar et al. 2026 (MaxRL), arXiv:2602.02710.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        reward, group_id, valid = batch["reward"], batch["group_id"], batch["reward_valid"]
        advantage = mean_normalised(reward, group_id, valid)
        record("advantage/positive", advantage, where=advantage > 0)
        groups = Groups(reward, group_id, valid)
        rare = 2 * groups.total(groups.reward) < groups.count * groups.highest(groups.valid)
        record("advantage/rare", advantage, where=(advantage > 0) & rare.to(advantage.device))
        return broadcast(batch, advantage)


class GPG(Component):
    """GPG advantage.

    ``A_i = (B / #{j: R_j != 0}) * (R_i - mean_g(R))`` with ``B`` valid rows in the batch; the
    divisor counts valid rows, too.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Source:
        Chu et al. 2025, arXiv:2504.02546 (GPG), as in verl.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "trajectory_id")
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        return broadcast(batch, per_episode(batch, gpg_advantage))


class GDPO(Component):
    """GDPO advantage: decoupled group normalisation of several rewards.

    ``A_i = S_i / (std(S) + eps)`` with
    ``S_i = sum_k w_k (R_ik - mean_g(R_k)) / (std_g(R_k) + eps)``; ``std(S)`` over the batch.

    Each reward is normalised before the sum, so that a reward of large variance does not hide a
    reward of small variance. A row that lacks a reward of non-zero weight (NaN) is excluded from
    all statistics.

    Reads ``rewards`` (``{name: [B]}``, NaN where missing), ``reward_valid``, ``group_id`` ``[B]``,
    ``response_mask`` ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 where no reward differs within
    the group, in groups of one, and where a reward is invalid or missing.

    Args:
        weights: w_k by name of the reward; a reward of weight 0 is ignored.
        epsilon: eps, added to both standard deviations. In ``std_g(R_k)`` it is in reward units.

    Raises:
        ConfigError: all weights are 0, or the weights and the rewards have different names.

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
                f"GDPO: weights is {weights or 'empty'}: give a factor for each part of the "
                "reward, at least one of them not 0"
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
    """Refuse weights of unknown rewards, and rewards without a weight."""
    weights, rewards = list(weights), list(rewards)
    for name in weights:
        if name not in rewards:
            raise ConfigError(f"GDPO: weights names {name!r}{nearest(name, rewards)}")
    for name in rewards:
        if name not in weights:
            raise ConfigError(
                f"GDPO: the reward {name!r} has no weight: set advantage.weights.{name} (0 "
                "ignores it)"
            )
