"""Another advantage, weighted by how hard the prompt is."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.difficulty import difficulty_weighted
from rlcomp.functional.group_accuracy import group_accuracy
from rlcomp.interfaces.advantage import put_advantage, rewards_to_go
from rlcomp.metrics import record


class DifficultyWeighted(Component):
    """``A w(q)`` for positive, ``A w(1 - q)`` for other advantages; q is the group's accuracy.

    w falls from ``high`` at q = 0 to ``low`` at q = 1. The weight changes no sign.

    Runs the advantage inside. Reads ``correct``, ``reward_valid``, ``group_id`` ``[B]``,
    ``response_mask`` ``[B, T]``. Writes ``advantage`` ``[B, T]``.

    Args:
        advantage: what is weighted.
        low: a of the paper, weight of easy prompts.
        high: b, weight of hard ones.
        midpoint: q0, accuracy at which the weight is halfway.
        steepness: k, how sharp the fall is there, per unit of accuracy.

    Source:
        Zhang and Zuo 2025 (GRPO-LEAD), arXiv:2504.09696, section 3.3.
    """

    reads = ("correct", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    runs = ("advantage",)
    min_group_size = 2

    def __init__(
        self,
        *,
        advantage: Component,
        low: NonNegativeFloat = 0.4,
        high: NonNegativeFloat = 1.5,
        midpoint: Probability = 0.75,
        steepness: PositiveFloat = 10.0,
    ) -> None:
        super().__init__()
        self.advantage = advantage
        self.low = low
        self.high = high
        self.midpoint = midpoint
        self.steepness = steepness

    def forward(self, batch: TensorDict) -> TensorDict:
        """Weight what the advantage inside writes."""
        # The dense rewards (KL) keep their price: they join behind the weight.
        inside = self.advantage(batch.exclude("token_reward"))
        valid = batch["reward_valid"]
        accuracy = group_accuracy(batch["correct"], batch["group_id"], valid)
        record("advantage/group_accuracy", accuracy, where=valid)
        weighted = difficulty_weighted(
            inside["advantage"], accuracy, self.low, self.high, self.midpoint, self.steepness
        )
        return put_advantage(batch, weighted + rewards_to_go(batch))
