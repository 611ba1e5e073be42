"""GiGPO advantage: episodes compared within a group, turns within a state."""

from __future__ import annotations

from typing import Literal

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.group import group_centred, group_standardised
from rlcomp.functional.turn_credit import gigpo_steps, turn_returns
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.interfaces.turns import TurnTable
from rlcomp.metrics import record


class GiGPO(Component):
    """GiGPO advantage: ``A = A^E + omega A^S``.

    ``A^E = (R - mean_g(R)) / F`` over the episodes of a group; ``A^S`` the same of the discounted
    return of each turn over all turns of the group that were decided in the same state
    (``anchor_id``). ``F = std + epsilon``, or 1 with ``norm=none``.

    With ``baseline=others`` the mean of ``A^S`` leaves the episode's own visits out. With
    ``norm=none`` as well, its expected gradient is the true one times the probability that another
    episode visits the state. The paper's mean over all visits is biased.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``, and
    if they are there ``trajectory_id`` ``[B]``, ``turn_id``, ``turn_reward``,
    ``anchor_id`` ``[B, T]``. Writes ``advantage`` ``[B, T]``, the same on all tokens of a turn; 0
    for invalid rewards.

    Records ``advantage/step_group`` (visits of a state), ``advantage/shared_states`` (share of
    turns whose state has another visit; 0 means no step advantage) and
    ``advantage/step`` (mean absolute ``A^S``).

    Args:
        gamma: discount of a turn.
        omega: weight of ``A^S``; 0: GRPO.
        baseline: ``group``, all visits of a state; or ``others``, those of other episodes.
        norm: ``std``, or ``none``.
        outcome: whether ``reward`` is added to ``turn_reward`` at the last turn. Set false if
            ``reward`` is already their sum (``reward=episode_return``): paying twice is refused.
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
            turn_returns(table.paid(outcome=self.outcome), self.gamma),
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
        return write_advantage(batch, table.spread(episodes[:, None] + self.omega * steps))
