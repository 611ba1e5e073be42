"""Turn-level return-to-go: the discounted rewards from a turn on."""

from __future__ import annotations

from typing import Literal

import torch
from tensordict import TensorDict

from rlcomp.arguments import Probability
from rlcomp.component import Component
from rlcomp.functional.turn_credit import turn_returns, without_own
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.interfaces.turns import TurnTable
from rlcomp.metrics import record


class TurnReturn(Component):
    """Turn-level return-to-go: ``A_k = sum_{l >= k} gamma^(l - k) r_l - b_k``.

    ``b_k`` is the mean return from turn ``k`` on over the other episodes of the group; 0 if no
    other has that turn. It does not depend on the episode's own actions, so there is no bias.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``, and
    if they are there ``trajectory_id`` ``[B]``, ``turn_id``, ``turn_reward``
    ``[B, T]``. Writes ``advantage`` ``[B, T]``, the same on all tokens of a turn; 0 for
    invalid rewards. Records ``advantage/turn_return``, the mean return of a turn.

    Args:
        gamma: discount of a turn, not of a token.
        baseline: ``others``; or ``none``, ``b = 0``.
        outcome: whether ``reward`` is added to ``turn_reward`` at the last turn. Set false if
            ``reward`` is already their sum (``reward=episode_return``): paying twice is refused.

    Source:
        REINFORCE with reward-to-go (Williams 1992) over turns; the baseline as in RLOO (Ahmadian et
        al. 2024, arXiv:2402.14740), turn by turn.
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
        returns = turn_returns(table.paid(outcome=self.outcome), self.gamma)
        record("advantage/turn_return", returns, where=table.counted)
        if self.baseline == "others":
            returns = returns - self._others(table, returns)
        counted = torch.where(table.counted, returns, torch.zeros_like(returns))
        return write_advantage(batch, table.spread(counted))

    def _others(self, table: TurnTable, returns: torch.Tensor) -> torch.Tensor:
        episodes, turns = returns.shape
        episode = torch.arange(episodes)[:, None].expand(-1, turns).flatten()
        _, group = torch.unique(table.group, return_inverse=True)
        cell = group[episode] * turns + torch.arange(turns).repeat(episodes)
        mean = without_own(returns.flatten(), table.counted.flatten(), cell, episode)
        return mean.nan_to_num(0.0).view(episodes, turns)
