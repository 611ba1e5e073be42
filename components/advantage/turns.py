"""Advantages of turns."""

from __future__ import annotations

from typing import Literal

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.group import group_centred, group_standardised
from rlcomp.functional.turn_credit import (
    gigpo_steps,
    mt_grpo_turns,
    other_episodes_mean,
    turn_returns,
    vine_advantage,
)
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.interfaces.turns import TurnTable
from rlcomp.metrics import record


class GiGPO(Component):
    """GiGPO advantage: ``A = A^E + omega A^S``.

    ``A^E = (R - mean_g(R)) / F`` over the episodes of a group. ``A^S = (G - mean_s(G)) / F`` with
    the discounted return ``G`` of a turn and the mean over all turns of the group in the same state
    ``s`` (``anchor_id``). ``F = std + epsilon``, or 1 with ``norm=none``.

    With ``baseline=others`` the mean of ``A^S`` excludes the visits of the episode itself. With
    ``baseline=others`` and ``norm=none`` the expected gradient of ``A^S`` is the true gradient
    times the probability that another episode visits the state. The paper's mean over all visits
    is biased.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``, and
    if present ``trajectory_id`` ``[B]``, ``turn_id``, ``turn_reward``,
    ``anchor_id`` ``[B, T]``. Writes ``advantage`` ``[B, T]``, the same on all tokens of a turn; 0
    for invalid rewards.

    Records ``advantage/step_group``, the visits of a state; ``advantage/shared_states``, the share
    of turns whose state has another visit (0: no turn has an ``A^S``); and ``advantage/step``, the
    mean absolute ``A^S``.

    Args:
        gamma: discount of a turn.
        omega: weight of ``A^S``; 0: the advantage of GRPO.
        baseline: the mean of ``A^S``: ``group``: over all visits of a state; ``others``: over the
            visits of other episodes.
        norm: ``std``: divide by standard deviations; ``none``: do not divide.
        outcome: whether ``reward`` is added to ``turn_reward`` at the last turn. False if
            ``reward`` is already the sum of ``turn_reward`` (``reward=episode_return``).
        epsilon: added to standard deviations, in reward units.

    Source:
        Feng et al. 2025, arXiv:2505.10978, eq. 3, 7 and 8.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    optional = ("trajectory_id", "turn_id", "turn_reward", "anchor_id")
    exclusive = "turn_reward"
    exclusive_if = "outcome"
    writes = ("advantage",)
    min_group_size = 2

    def __init__(
        self,
        *,
        gamma: Probability = 0.95,
        omega: NonNegativeFloat = 1.0,
        baseline: Literal["group", "others"] = "group",
        norm: Literal["std", "none"] = "std",
        outcome: bool = True,
        epsilon: PositiveFloat = 1e-6,
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.omega = omega
        self.baseline = baseline
        self.epsilon = epsilon if norm == "std" else None
        self.outcome = outcome

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        table = TurnTable(batch)
        if self.epsilon is None:
            episodes = group_centred(table.outcome, table.group, table.valid)
        else:
            episodes = group_standardised(table.outcome, table.group, table.valid, self.epsilon)
        steps, sizes = gigpo_steps(
            turn_returns(table.rewards(outcome=self.outcome), self.gamma),
            table.anchor,
            table.counted,
            table.group,
            baseline=self.baseline,
            epsilon=self.epsilon,
        )
        counted = table.counted
        record("advantage/step_group", sizes, where=counted & (sizes > 0))
        record("advantage/shared_states", (sizes > 1).float(), where=counted)
        record("advantage/step", steps.abs(), where=counted)
        return write_advantage(batch, table.to_tokens(episodes[:, None] + self.omega * steps))


class MTGRPO(Component):
    """MT-GRPO advantage: ``A_k = A^T_k + lambda A^O``; ``A^O`` alone at the last turn.

    ``A^O`` is the outcome standardised over the group. ``A^T_k`` is the reward of turn ``k``
    standardised over those episodes of the group in which turn ``k`` is not the last turn.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``, and
    if present ``trajectory_id`` ``[B]``, ``turn_id``, ``turn_reward`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``, the same on all tokens of a turn; 0 for invalid rewards. Records
    ``advantage/turn``, the mean absolute ``A^T`` of turns before the last.

    Args:
        outcome_weight: ``lambda``, weight of ``A^O`` before the last turn.
        epsilon: added to standard deviations, in reward units.

    Source:
        Zeng et al. 2025, arXiv:2505.11821 (version 1).
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    optional = ("trajectory_id", "turn_id", "turn_reward")
    writes = ("advantage",)
    min_group_size = 2

    def __init__(
        self, *, outcome_weight: NonNegativeFloat = 1.0, epsilon: PositiveFloat = 1e-6
    ) -> None:
        super().__init__()
        self.outcome_weight = outcome_weight
        self.epsilon = epsilon

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        table = TurnTable(batch)
        outcome = group_standardised(table.outcome, table.group, table.valid, self.epsilon)[:, None]
        turns = mt_grpo_turns(table.reward, table.exists, table.valid, table.group, self.epsilon)
        before_last = table.counted & (table.exists.flip(1).cumsum(1).flip(1) > 1)
        record("advantage/turn", turns.abs(), where=before_last)
        advantage = torch.where(before_last, turns + self.outcome_weight * outcome, outcome)
        return write_advantage(batch, table.to_tokens(advantage))


class TurnReturn(Component):
    """Turn-level return-to-go: ``A_k = sum_{l >= k} gamma^(l - k) r_l - b_k``.

    ``b_k`` is the mean return from turn ``k`` on over the other episodes of the group; 0 if no
    other episode has a turn ``k``. It does not depend on the actions of the episode itself, so
    there is no bias.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``, and
    if present ``trajectory_id`` ``[B]``, ``turn_id``, ``turn_reward``
    ``[B, T]``. Writes ``advantage`` ``[B, T]``, the same on all tokens of a turn; 0 for
    invalid rewards. Records ``advantage/turn_return``, the mean return of a turn.

    Args:
        gamma: discount of a turn, not of a token.
        baseline: ``others``: ``b_k`` as above; ``none``: ``b_k = 0``.
        outcome: whether ``reward`` is added to ``turn_reward`` at the last turn. False if
            ``reward`` is already the sum of ``turn_reward`` (``reward=episode_return``).

    Source:
        REINFORCE with reward-to-go (Williams 1992) over turns; baseline of RLOO (Ahmadian et al.
        2024, arXiv:2402.14740), for each turn.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    optional = ("trajectory_id", "turn_id", "turn_reward")
    exclusive = "turn_reward"
    exclusive_if = "outcome"
    writes = ("advantage",)

    def __init__(
        self,
        *,
        gamma: Probability = 1.0,
        baseline: Literal["others", "none"] = "others",
        outcome: bool = True,
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.baseline = baseline
        self.outcome = outcome

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        table = TurnTable(batch)
        returns = turn_returns(table.rewards(outcome=self.outcome), self.gamma)
        record("advantage/turn_return", returns, where=table.counted)
        if self.baseline == "others":
            returns = returns - self._baseline(table, returns)
        counted = torch.where(table.counted, returns, torch.zeros_like(returns))
        return write_advantage(batch, table.to_tokens(counted))

    def _baseline(self, table: TurnTable, returns: torch.Tensor) -> torch.Tensor:
        """Return ``b_k`` of every episode and turn."""
        episodes, turns = returns.shape
        episode = torch.arange(episodes)[:, None].expand(-1, turns).flatten()
        _, group = torch.unique(table.group, return_inverse=True)
        group_turn = group[episode] * turns + torch.arange(turns).repeat(episodes)
        mean = other_episodes_mean(returns.flatten(), table.counted.flatten(), group_turn, episode)
        return mean.nan_to_num(0.0).view(episodes, turns)


class VinePPO(Component):
    """VinePPO advantage: ``A_k = V_{k+1} - V_k``, where ``V_K`` is the reward.

    ``V_k`` is the mean reward of other episodes that continue from the state before turn ``k``
    (``collector=vine``). Rewards belong to whole episodes, so ``A_k`` equals
    ``r_k + V(next) - V(this)`` with values of future rewards. ``V_k`` does not depend on the
    actions of turn ``k``, so there is no bias.

    A stage that changes the reward, such as shaping, changes only the advantage of the last turn.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask``, ``turn_value``
    ``[B, T]``, and if present ``trajectory_id`` ``[B]``, ``turn_id`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``, the same on all tokens of a turn; 0 for invalid rewards and for turns
    without a value. Records ``advantage/turn``, the mean absolute advantage of a turn.

    Source:
        Kazemnejad et al. 2024, arXiv:2410.01679 (VinePPO), section 4.
    """

    keys = {
        "turn_value": (
            "B T",
            "float",
            "mean reward of episodes that continue from before the turn",
        )
    }
    reads = ("reward", "reward_valid", "group_id", "response_mask", "turn_value")
    optional = ("trajectory_id", "turn_id")
    writes = ("advantage",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        table = TurnTable(batch)
        value = table.first_tokens(batch["turn_value"])
        advantage = vine_advantage(table.outcome, value, table.exists)
        record("advantage/turn", advantage.abs(), where=table.counted)
        return write_advantage(batch, table.to_tokens(advantage))
