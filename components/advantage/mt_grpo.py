"""MT-GRPO advantage: each turn's own reward beside the outcome."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.group import group_standardised
from rlcomp.functional.turn_credit import mt_grpo_turns
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.interfaces.turns import TurnTable
from rlcomp.metrics import record


class MTGRPO(Component):
    """MT-GRPO advantage: ``A_k = A^T_k + lambda A^O``; ``A^O`` alone at the last turn.

    ``A^T_k`` is the reward of turn ``k`` standardised over the episodes of the group that have such
    a turn before their last one, ``A^O`` the outcome standardised over the group.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``, and
    if they are there ``trajectory_id`` ``[B]``, ``turn_id``, ``turn_reward`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``, the same on all tokens of a turn; 0 for invalid rewards. Records
    ``advantage/turn``, the mean absolute ``A^T`` of turns before the last.

    Args:
        outcome_weight: ``lambda``.
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
        turns = mt_grpo_turns(table.reward, table.there, table.valid, table.group, self.epsilon)
        before = table.counted & (table.there.flip(1).cumsum(1).flip(1) > 1)
        record("advantage/turn", turns.abs(), where=before)
        advantage = torch.where(before, turns + self.outcome_weight * outcome, outcome)
        return write_advantage(batch, table.spread(advantage))
