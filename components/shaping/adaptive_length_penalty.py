"""Length penalty on correct responses with a weight that follows the accuracy."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.interfaces.shaping import response_length, write_shaped_reward
from rlcomp.metrics import record


class AdaptiveLengthPenalty(Component):
    """Length penalty on correct responses, with a weight adapted to a target accuracy.

    ``R <- R - lambda L / L_max`` for correct responses; then ``lambda`` rises by ``step`` if the
    accuracy is at least ``target``, and falls by ``step`` if not, within ``[0, max_weight]``. The
    accuracy is a moving average, ``a <- decay a + (1 - decay) mean(correct)`` over valid rows.

    This is a dual ascent for the shortest responses with an accuracy of ``target``. Wrong responses
    have no penalty, because it would reward giving up. Weight and accuracy are part of a
    checkpoint.

    Reads ``reward``, ``reward_valid``, ``correct`` ``[B]``, ``rewards``, ``response_mask``
    ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``length_penalty`` of ``rewards`` (weighted).
    Records ``length_penalty/weight`` (before its update) and ``length_penalty/accuracy`` (the
    moving average with this batch).

    Args:
        max_length: tokens of a correct response with the full penalty: usually the limit.
        target: the target accuracy.
        step: change of the weight, in reward units.
        max_weight: largest weight, in reward units.
        weight: initial weight.
        decay: decay of the moving average.

    Source:
        Arora and Zanette 2025, arXiv:2502.04463, for the penalty on correct responses; the weight
        is the Lagrange multiplier of a bound on the accuracy, Boyd and Vandenberghe 2004, section
        5.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "response_mask")
    writes = ("reward", "rewards")

    weight: Tensor
    accuracy: Tensor

    def __init__(
        self,
        *,
        max_length: PositiveInt,
        target: Probability = 0.9,
        step: NonNegativeFloat = 0.05,
        max_weight: Probability = 1.0,
        weight: Probability = 0.0,
        decay: Probability = 0.8,
    ) -> None:
        super().__init__()
        self.max_length = max_length
        self.target = target
        self.step = step
        self.max_weight = max_weight
        self.decay = decay
        self.register_buffer("weight", torch.tensor(weight, dtype=torch.float64))
        self.register_buffer("accuracy", torch.tensor(torch.nan, dtype=torch.float64))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Penalise correct responses, then update the weight."""
        weight, valid = float(self.weight), batch["reward_valid"]
        share = response_length(batch) / self.max_length
        part = masked(-weight * share, batch["correct"] & valid)
        record("length_penalty/weight", weight)
        if valid.any():
            self._observe(float(batch["correct"][valid].double().mean()))
            record("length_penalty/accuracy", float(self.accuracy))
        return write_shaped_reward(batch, "length_penalty", part, batch["reward"] + part)

    def _observe(self, accuracy: float) -> None:
        """Update the average and the weight."""
        if not torch.isnan(self.accuracy):
            accuracy = self.decay * float(self.accuracy) + (1 - self.decay) * accuracy
        self.accuracy.fill_(accuracy)
        move = self.step if accuracy >= self.target else -self.step
        self.weight.add_(move).clamp_(0.0, self.max_weight)
