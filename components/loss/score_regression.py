"""Regression of a reward model on ratings."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.metrics import record


class ScoreRegression(RowLoss):
    """Squared error of a reward model on ratings: ``loss = sum_i w_i (r_i - R_i)^2``.

    The rating ``R`` of an answer is its reward: a number that raters, a judge or a verifier gave.

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
