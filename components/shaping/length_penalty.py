"""Length penalty on correct responses, gated by group accuracy (GRPO-lambda)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import Fraction, Probability
from rlcomp.component import Component
from rlcomp.functional.length import solved_length_penalty
from rlcomp.interfaces.shaping import response_length, write_shaped_reward
from rlcomp.metrics import record


class LengthPenalty(Component):
    """Length penalty on correct responses, gated by group accuracy (GRPO-lambda).

    ``R <- R - weight * sigmoid(z)`` for correct responses of groups with accuracy at or above the
    threshold; ``z = (L - mean(L)) / std(L)`` over the correct responses of the group.

    Wrong responses are never penalised. With rewards 0 and 1 a correct response stays above every
    wrong one, because ``weight`` is below 1.

    Reads ``reward``, ``reward_valid``, ``correct``, ``group_id`` ``[B]``, ``rewards``,
    ``response_mask`` ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``length_penalty`` of
    ``rewards`` (weighted). Records the standard deviation of the penalty over correct responses; it
    is 0, without a preference, if all have the same length.

    Args:
        weight: the largest penalty, in reward units.
        min_accuracy: least share of right answers of a group with a penalty; 0: always.

    Source:
        Arora and Zanette 2025, arXiv:2502.04463, eq. 3; Dai et al. 2025 (GRPO-lambda),
        arXiv:2505.18086, for ``min_accuracy``.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "group_id", "response_mask")
    writes = ("reward", "rewards")
    min_group_size = 2

    def __init__(self, *, weight: Fraction = 0.2, min_accuracy: Probability = 0.0) -> None:
        super().__init__()
        self.weight = weight
        self.min_accuracy = min_accuracy

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the penalty."""
        valid = batch["reward_valid"]
        right = batch["correct"] & valid
        penalty = self.weight * solved_length_penalty(
            response_length(batch), right, batch["group_id"], valid, self.min_accuracy
        )
        if right.any():
            record("reward/length_penalty_std", penalty[right].std(correction=0))
        return write_shaped_reward(batch, "length_penalty", penalty, batch["reward"] + penalty)
