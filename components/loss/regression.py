"""Losses of reward models from ratings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.arguments import PositiveFloat
from rlcomp.errors import ConfigError, DataError
from rlcomp.functional.reduction import masked
from rlcomp.functional.reward_model import ordinal_log_probs, uniform_thresholds
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.metrics import record

# Largest distance of a rating to its level; a mean of floats is not exact.
_TOLERANCE = 1e-4


class OrdinalRegression(RowLoss):
    """Ordinal regression of a reward model on ratings (proportional odds).

    ``loss = -sum_i w_i log P(R_i)``, ``P(R <= level k) = s(theta_k - r_i)``. The loss uses only the
    order of the ratings, not their differences. The thresholds ``theta_1 < ... < theta_(K-1)`` are
    learnt.

    The rating of an answer is its reward. The initial thresholds are ``log(k / (K - k))``; they
    give all levels the same probability at the score 0.

    Reads ``model_score``, ``reward`` ``[B]``. Writes the scalar ``loss``, nats per answer.

    Records ``reward_model/exact``, the share of answers whose most likely level is the rating;
    ``reward_model/lowest_threshold`` and ``reward_model/highest_threshold``, in log-odds.

    Args:
        levels: the possible ratings from worst to best, at least two.
        rate: factor by which the thresholds move faster under Adam than a weight of the model.

    Raises:
        ConfigError: the levels do not increase.
        DataError: a reward is not one of the levels.

    Source:
        McCullagh 1980, "Regression models for ordinal data", Journal of the Royal Statistical
        Society B 42(2).
    """

    equation = (
        "loss = -sum_i w_i log P(R_i), P(R <= level k) = s(theta_k - r_i), levels {levels}, "
        "thresholds learnt ({rate})"
    )
    reads = ("model_score", "reward")

    def __init__(self, *, levels: Sequence[float], rate: PositiveFloat = 100.0) -> None:
        super().__init__()
        if len(levels) < 2 or any(b <= a for a, b in pairwise(levels)):
            raise ConfigError(
                f"OrdinalRegression: levels is {list(levels)}: must be at least two ratings in "
                "increasing order, such as [1, 2, 3, 4, 5]"
            )
        self.levels = list(levels)
        self.rate = rate
        start = uniform_thresholds(len(levels))
        self.register_buffer("start", torch.tensor(start), persistent=False)
        # Changes by training, divided by ``rate``: of the lowest threshold, then of the logarithms
        # of the gaps.
        self.moved = nn.Parameter(torch.zeros(len(start)))

    start: Tensor

    def thresholds(self) -> tuple[Tensor, Tensor]:
        """Return the lowest threshold, a scalar, and the gaps between thresholds, ``[K - 2]``."""
        moved = self.rate * self.moved
        return self.start[0] + moved[0], self.start.diff() * moved[1:].exp()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these answers."""
        batch = self.weighted(batch)
        weight = batch["row_weight"]
        counts = weight > 0
        level = self._level(batch["reward"].detach(), counts)
        # Select first: values of rows that do not count must not reach the thresholds' gradient.
        first, gaps = self.thresholds()
        log_probs = ordinal_log_probs(masked(batch["model_score"], counts), first, gaps)
        record("reward_model/exact", log_probs.detach().argmax(1) == level, where=counts)
        last = (first + gaps.sum()).detach()
        record("reward_model/lowest_threshold", first.detach().expand_as(weight), where=counts)
        record("reward_model/highest_threshold", last.expand_as(weight), where=counts)
        nll = -log_probs.gather(1, level[:, None])[:, 0]
        return scalars(loss=(nll * weight).sum())

    def _level(self, rating: Tensor, counts: Tensor) -> Tensor:
        """Return the level of each rating, shape ``[B]``; 0 if a row does not count."""
        levels = torch.tensor(self.levels, dtype=rating.dtype, device=rating.device)
        distance, level = (masked(rating, counts)[:, None] - levels).abs().min(1)
        wrong = (counts & ~(distance <= _TOLERANCE)).nonzero().flatten()
        if len(wrong):
            raise DataError(
                f"row {int(wrong[0])} has the rating {float(rating[wrong[0]]):g}, which is not in "
                f"loss.levels, {self.levels}: add the rating to loss.levels, or round the ratings"
            )
        return masked(level, counts)


class ScoreRegression(RowLoss):
    """Squared error of a reward model on ratings: ``loss = sum_i w_i (r_i - R_i)^2``.

    The rating ``R`` of an answer is its reward, from raters, a judge or a verifier.

    Reads ``model_score``, ``reward`` ``[B]``. Writes the scalar ``loss``, in squared reward units.

    Records ``reward_model/absolute_error``, in reward units.

    Source:
        Wang et al. 2024 (HelpSteer2), arXiv:2406.08673: regression on ratings.
    """

    equation = "loss = sum_i w_i (r_i - R_i)^2"
    reads = ("model_score", "reward")

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these answers."""
        batch = self.weighted(batch)
        weight, error = batch["row_weight"], batch["model_score"] - batch["reward"].detach()
        counts = weight > 0
        record("reward_model/absolute_error", error.detach().abs(), where=counts)
        return scalars(loss=torch.where(counts, error**2 * weight, 0.0).sum())
