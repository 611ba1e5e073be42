"""Bradley-Terry loss of a reward model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, Probability
from rlcomp.functional.preference import relabelled
from rlcomp.functional.reward_model import bradley_terry_loss, centring_penalty
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.interfaces.pairs import by_pair_weight, first_is_chosen, sides
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class BradleyTerry(RowLoss):
    """Bradley-Terry loss of a reward model on pairs.

    ``loss = sum_u w_u ((1 - e_u) l(r_w - r_l) + e_u l(r_l - r_w) + c (r_w + r_l)^2)``,
    ``l(d) = -log s(d - mu_u)``. With ``e`` > 0 and ``mu`` = 0 its minimum is at
    ``r_w - r_l = log((1 - e) / e)``: the label ``1 - e`` of a soft preference.

    Rows 2k and 2k + 1 are a pair, in either order.

    Reads ``model_score``, ``chosen`` ``[B]``; if they are there ``pair_weight`` ``[B]``,
    ``label_noise`` and ``pair_margin`` ``[B]``, which replace the arguments. Writes the scalar
    ``loss``.

    Records over pairs that are no ties (noise is not 1/2)
    ``reward_model/accuracy``, share whose margin is above 0;
    ``reward_model/margin``, score of the chosen minus score of the rejected answer;
    ``reward_model/chosen`` and ``rejected``, the scores.

    Args:
        margin: mu, the margin by which the score of the chosen answer should lead.
        label_noise: e, probability that a label is wrong.
        centring_coef: c, weight of the squared sum of both scores, as in the source.

    Raises:
        DataError: a pair has not exactly one chosen answer.

    Source:
        Ouyang et al. 2022 (InstructGPT), arXiv:2203.02155, eq. 1; margin: Touvron et al. 2023
        (Llama 2), arXiv:2307.09288, eq. 2; centring: Eisenstein et al. 2023, arXiv:2312.09244.
    """

    equation = (
        "loss = sum_u w_u ((1 - e) l(r_w - r_l) + e l(r_l - r_w) + {centring_coef} (r_w + r_l)^2), "
        "l(d) = -log s(d - {margin}), e = {label_noise}"
    )
    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "pair_weight": ("B", "float", "how much the row's pair counts", {"example": "positive"}),
        "label_noise": ("B", "float", "probability that the label of the row's pair is wrong"),
        "pair_margin": ("B", "float", "by how much the score of the chosen answer is to lead"),
    }
    reads = ("model_score", "chosen")
    optional = ("pair_weight", "label_noise", "pair_margin")
    unit_rows = 2

    def __init__(
        self,
        *,
        margin: NonNegativeFloat = 0.0,
        label_noise: Probability = 0.0,
        centring_coef: NonNegativeFloat = 0.01,
    ) -> None:
        super().__init__()
        self.margin = margin
        self.label_noise = label_noise
        self.centring_coef = centring_coef

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``row_weight`` ``[B]`` of pairs."""
        prepared = super().prepare(batch)
        if "pair_weight" in batch.keys():
            own = by_pair_weight(prepared["row_weight"], batch["pair_weight"])
            prepared["row_weight"] = own
        return prepared

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these pairs."""
        batch = self.weighted(batch)
        first = first_is_chosen(batch["chosen"])
        weight = batch["row_weight"].view(-1, 2)[:, 0]
        chosen, rejected = sides(batch["model_score"], first)
        noise = _of_pairs(batch, "label_noise", self.label_noise, weight)
        margin = _of_pairs(batch, "pair_margin", self.margin, weight)
        right = bradley_terry_loss(chosen, rejected, margin)
        flipped = bradley_terry_loss(rejected, chosen, margin)
        each = relabelled(right, flipped, noise, unbiased=False)
        each = each + self.centring_coef * centring_penalty(chosen, rejected)
        record_pairs(chosen, rejected, (weight > 0) & (noise != 0.5))
        return scalars(loss=torch.where(weight > 0, each * weight, 0.0).sum())


def record_pairs(chosen: Tensor, rejected: Tensor, counts: Tensor) -> None:
    """Record accuracy, margin and both scores of the pairs that count."""
    chosen, rejected = chosen.detach(), rejected.detach()
    record("reward_model/accuracy", chosen > rejected, where=counts)
    record("reward_model/margin", chosen - rejected, where=counts)
    record("reward_model/chosen", chosen, where=counts)
    record("reward_model/rejected", rejected, where=counts)


def _of_pairs(batch: TensorDict, key: Key, otherwise: float, like: Tensor) -> Tensor:
    if key not in batch.keys():
        return torch.full_like(like, otherwise)
    of_pairs: Tensor = batch[key].view(-1, 2)[:, 0].to(like.dtype)
    return of_pairs
