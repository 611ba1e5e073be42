"""GRPO-LEAD advantage reweighting by prompt difficulty."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.difficulty import difficulty_weighted
from rlcomp.functional.group_accuracy import group_accuracy
from rlcomp.interfaces.advantage import rewards_to_go, write_advantage
from rlcomp.metrics import record


class DifficultyWeighted(Component):
    """GRPO-LEAD advantage reweighting by prompt difficulty.

    ``A' = A * w(q)`` if ``A > 0``, else ``A * w(1 - q)``, with
    ``w(q) = a + (b - a) / (1 + exp(k (q - q0)))`` and ``q`` the group's accuracy.

    ``w`` falls from b at low to a at high accuracy. The sign of the advantage never changes.

    Runs the advantage inside. Reads ``correct``, ``reward_valid``, ``group_id`` ``[B]``,
    ``response_mask`` ``[B, T]``. Writes ``advantage`` ``[B, T]``.

    Args:
        advantage: the estimator of ``A``.
        low: a, weight of easy prompts.
        high: b, weight of hard prompts.
        midpoint: q0, accuracy at which ``w = (a + b) / 2``.
        steepness: k, per unit of accuracy.

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
        """Run the inner estimator and reweight its advantage."""
        # Dense rewards (KL) are added afterwards, so they are not reweighted.
        inside = self.advantage(batch.exclude("token_reward"))
        valid = batch["reward_valid"]
        accuracy = group_accuracy(batch["correct"], batch["group_id"], valid)
        record("advantage/group_accuracy", accuracy, where=valid)
        weighted = difficulty_weighted(
            inside["advantage"], accuracy, self.low, self.high, self.midpoint, self.steepness
        )
        return write_advantage(batch, weighted + rewards_to_go(batch))
