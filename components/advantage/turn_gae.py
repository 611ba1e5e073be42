"""Turn-level GAE: one step of the estimator is a turn."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import Probability
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.functional.turn_credit import turn_gae
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.interfaces.turns import TurnTable


class TurnGAE(Component):
    """Generalised advantage estimation over turns.

    ``A_k = sum_l (gamma lambda)^l delta_{k+l}`` with ``delta_k = r_k + gamma V_{k+1} - V_k``, where
    ``V_k`` is the critic's value before the first token of turn ``k``, 0 after the last turn
    unless ``bootstrap_truncated``. All tokens of a turn have its advantage, and as the critic's
    target ``returns = A_k + V_k``.

    Reads ``reward``, ``reward_valid``, ``truncated``, ``group_id`` ``[B]``, ``response_mask``,
    ``value`` ``[B, T]``, and if they are there ``trajectory_id`` ``[B]``, ``turn_id``,
    ``turn_reward`` ``[B, T]``. Writes ``advantage`` and ``returns`` ``[B, T]``. For an invalid
    reward the advantage is 0 and ``returns`` is ``value``, so that the critic gets no gradient
    there.

    Args:
        gamma: discount of a turn.
        gae_lambda: lambda; 1: the return less the value.
        outcome: whether ``reward`` is added to ``turn_reward`` at the last turn. Set false if
            ``reward`` is already their sum (``reward=episode_return``): paying twice is refused.
        bootstrap_truncated: bootstrap episodes that a limit cut (of a turn, of turns, of the
            context). The batch has no value after the last token, so ``V`` of the last sampled
            token is used. False: truncation is terminal, like an end of the environment.

    Source:
        Schulman et al. 2016, arXiv:1506.02438, eq. 16, over turns.
    """

    reads = ("reward", "reward_valid", "truncated", "group_id", "response_mask", "value")
    optional = ("trajectory_id", "turn_id", "turn_reward")
    exclusive = "turn_reward"
    exclusive_if = "outcome"
    writes = ("advantage", "returns")

    def __init__(
        self,
        *,
        gamma: Probability = 1.0,
        gae_lambda: Probability = 1.0,
        outcome: bool = True,
        bootstrap_truncated: bool = False,
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.outcome = outcome
        self.bootstrap_truncated = bootstrap_truncated

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write advantage and returns."""
        table, value = TurnTable(batch), batch["value"].detach()
        first, paid = table.first_tokens(value), table.paid(outcome=self.outcome)
        last = table.last_token(value) if self.bootstrap_truncated else None
        if last is not None:
            last = torch.where(table.any_row(batch["truncated"]), last, torch.zeros_like(last))
        advantage = turn_gae(paid, first, table.counted, self.gamma, self.gae_lambda, last)
        returns = table.spread(advantage + first)
        valid = batch["reward_valid"][:, None]
        batch["returns"] = masked(torch.where(valid, returns, value), batch["response_mask"])
        return write_advantage(batch, table.spread(advantage))
