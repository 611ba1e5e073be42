"""VinePPO advantage: the change of the Monte-Carlo value over a turn."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.turn_credit import vine_advantage
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.interfaces.turns import TurnTable
from rlcomp.metrics import record


class Vine(Component):
    """VinePPO advantage: ``A_k = V_{k+1} - V_k``, where ``V_K`` is the reward.

    ``V_k`` is the mean reward of other episodes that go on from before turn ``k``
    (``collector=vine``). Rewards are of whole episodes, so ``A_k`` equals
    ``r_k + V(next) - V(this)`` with values of the rewards still to come. No value depends on the
    turn it is compared with: there is no bias.

    A change of the reward by a later stage, such as shaping, counts for the last turn only.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask``, ``turn_value``
    ``[B, T]``, and if they are there ``trajectory_id`` ``[B]``, ``turn_id`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``, the same on all tokens of a turn; 0 for invalid rewards, and where a
    value is unknown. Records ``advantage/turn``, the mean absolute advantage of a turn.

    Source:
        Kazemnejad et al. 2024, arXiv:2410.01679 (VinePPO), section 4.
    """

    keys = {
        "turn_value": ("B T", "float", "mean reward of episodes that go on from before the turn")
    }
    reads = ("reward", "reward_valid", "group_id", "response_mask", "turn_value")
    optional = ("trajectory_id", "turn_id")
    writes = ("advantage",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        table = TurnTable(batch)
        value = table.first_tokens(batch["turn_value"])
        advantage = vine_advantage(table.outcome, value, table.there)
        record("advantage/turn", advantage.abs(), where=table.counted)
        return write_advantage(batch, table.spread(advantage))
