"""Plackett-Luce loss of a reward model."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from tensordict import TensorDict

from rlcomp.errors import DataError
from rlcomp.functional.reward_model import plackett_luce_loss
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.metrics import record


class PlackettLuce(RowLoss):
    """Plackett-Luce loss of a reward model on rankings of ``K`` answers to a prompt.

    ``loss = sum_u w_u sum_k [log sum_{j >= k} exp r_(j) - r_(k)]``, ``r_(1)`` the score of the
    answer with the highest reward; Breslow's form for equal rewards.

    Rows ``K u`` to ``K u + K - 1`` are the answers to one prompt.

    Reads ``model_score``, ``reward``, ``group_id`` ``[B]``. Writes the scalar ``loss``.

    Records ``reward_model/top``, the share of rankings whose best answer has the highest score.

    Args:
        group_size: K, number of answers in a ranking.

    Raises:
        DataError: the rows of a ranking answer different prompts, as a filter before it has dropped
            some.

    Source:
        Plackett 1975; Luce 1959; for reward models: Zhu et al. 2023, arXiv:2301.11270 (K-wise).
    """

    equation = "loss = sum_u w_u sum_k [log sum_(j >= k) exp r_(j) - r_(k)], K = {group_size}"
    reads = ("model_score", "reward", "group_id")

    def __init__(self, *, group_size: Annotated[int, Ge(2)]) -> None:
        super().__init__()
        self.group_size = group_size
        self.unit_rows = group_size

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rankings."""
        batch = self.weighted(batch)
        size = self.group_size
        score, rating, group, weight = (
            batch[key].view(-1, size) for key in ("model_score", "reward", "group_id", "row_weight")
        )
        if bool((group != group[:, :1]).any()):
            raise DataError(
                f"{size} adjacent rows are not the answers to one prompt: give loss.group_size the "
                "rollout's, and put no filter between the two"
            )
        each, weight = plackett_luce_loss(score, rating), weight[:, 0]
        counts = weight > 0
        best = rating.gather(1, score.detach().argmax(1, keepdim=True))[:, 0]
        record("reward_model/top", best == rating.amax(1), where=counts)
        return scalars(loss=torch.where(counts, each * weight, 0.0).sum())
