"""Length penalties on correct responses.

Each part records ``reward/<part>`` and ``reward/shaped``
(:func:`rlcomp.interfaces.stages.write_shaped_reward`).
"""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Fraction, NonNegativeFloat, PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.functional.length import grpo_lead, solved_length_penalty
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.stages import response_length, write_shaped_reward
from rlcomp.metrics import record


class LengthPenalty(Component):
    """Length penalty on correct responses, gated by group accuracy (GRPO-lambda).

    ``R <- R - weight * sigmoid(z)`` for correct responses of groups with an accuracy of at least
    ``min_accuracy``; ``z = (L - mean(L)) / std(L)`` over the correct responses of the group
    (population std).

    Wrong responses are never penalised. With rewards 0 and 1 a correct response stays above every
    wrong one, because ``weight`` is below 1.

    Reads ``reward``, ``reward_valid``, ``correct``, ``group_id`` ``[B]``, ``rewards``,
    ``response_mask`` ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``length_penalty`` of
    ``rewards`` (weighted). Records ``reward/length_penalty_std``, the standard deviation of the
    penalty over correct responses; 0 if all their penalties are equal.

    Args:
        weight: the largest penalty, in reward units.
        min_accuracy: least accuracy of a group with a penalty; 0: all groups have a penalty.

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
        correct = batch["correct"] & valid
        penalty = self.weight * solved_length_penalty(
            response_length(batch), correct, batch["group_id"], valid, self.min_accuracy
        )
        if correct.any():
            record("reward/length_penalty_std", penalty[correct].std(correction=0))
        return write_shaped_reward(batch, "length_penalty", penalty, batch["reward"] + penalty)


class AdaptiveLengthPenalty(Component):
    """Length penalty on correct responses, with a weight adapted to a target accuracy.

    ``R <- R - lambda L / L_max`` for correct responses; then ``lambda`` rises by ``step`` if the
    accuracy is at least ``target``, and falls by ``step`` if not, within ``[0, max_weight]``. The
    accuracy is a moving average, ``a <- decay a + (1 - decay) mean(correct)`` over valid rows; the
    first batch with a valid row sets it. A batch without one updates nothing.

    This is a dual ascent for the shortest responses with an accuracy of ``target``. Wrong responses
    have no penalty, because a penalty would reward short wrong answers. Weight and accuracy are
    part of a checkpoint.

    Reads ``reward``, ``reward_valid``, ``correct`` ``[B]``, ``rewards``, ``response_mask``
    ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``length_penalty`` of ``rewards`` (weighted).
    Records ``length_penalty/weight`` (before its update) and ``length_penalty/accuracy`` (the
    moving average with this batch).

    Args:
        max_length: number of tokens with the full penalty; usually the length limit.
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
        # NaN: no batch yet.
        self.register_buffer("accuracy", torch.tensor(torch.nan, dtype=torch.float64))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Penalise correct responses, then update the weight."""
        weight, valid = float(self.weight), batch["reward_valid"]
        share = response_length(batch) / self.max_length
        part = masked(-weight * share, batch["correct"] & valid)
        record("length_penalty/weight", weight)
        if valid.any():
            self._update(float(batch["correct"][valid].double().mean()))
            record("length_penalty/accuracy", float(self.accuracy))
        return write_shaped_reward(batch, "length_penalty", part, batch["reward"] + part)

    def _update(self, accuracy: float) -> None:
        """Update the average and the weight."""
        if not torch.isnan(self.accuracy):
            accuracy = self.decay * float(self.accuracy) + (1 - self.decay) * accuracy
        self.accuracy.fill_(accuracy)
        change = self.step if accuracy >= self.target else -self.step
        self.weight.add_(change).clamp_(0.0, self.max_weight)


class GRPOLead(Component):
    """GRPO-LEAD's length-dependent accuracy reward.

    ``R = exp(-alpha * z)`` for correct responses, -1 for wrong ones, with
    ``z = (L - mean(L)) / std(L)`` over the correct responses of the group (population std).

    ``advantage=difficulty_weighted`` gives the paper's difficulty weights.

    Reads ``reward``, ``reward_valid``, ``correct``, ``group_id`` ``[B]``, ``rewards``,
    ``response_mask`` ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``grpo_lead`` of
    ``rewards``.

    Args:
        alpha: rate of the decay per standard deviation of length.

    Source:
        Zhang and Zuo 2025, arXiv:2504.09696, section 3.1.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "group_id", "response_mask")
    writes = ("reward", "rewards")
    min_group_size = 2

    def __init__(self, *, alpha: NonNegativeFloat = 0.05) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reward."""
        correct = batch["correct"] & batch["reward_valid"]
        reward = grpo_lead(response_length(batch), correct, batch["group_id"], self.alpha)
        return write_shaped_reward(batch, "grpo_lead", reward, reward)
