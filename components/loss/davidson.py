"""Davidson loss of a reward model: Bradley-Terry with ties."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import nn

from rlcomp.arguments import NonNegativeFloat, PositiveFloat, Probability
from rlcomp.functional.masked import masked
from rlcomp.functional.preference import relabelled
from rlcomp.functional.reward_model import centring_penalty, davidson_loss
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.interfaces.pairs import by_pair_weight, first_is_chosen, sides
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class Davidson(RowLoss):
    """Davidson loss of a reward model on pairs with ties.

    ``loss = sum_u w_u (l_u + c (r_w + r_l)^2)``; ``l`` = ``-log P(tie)`` of a tie, else ``(1 - e)
    (-log P(w)) + e (-log P(l))``, with ``P(w) = e^{r_w} / Z``, ``P(tie) = nu e^{(r_w + r_l) / 2} /
    Z``. Ties pull the two scores together. Raters call a share ``nu / (2 + nu)`` of equal answers a
    tie.

    Rows 2k and 2k + 1 are a pair, in either order.

    Reads ``model_score``, ``chosen`` ``[B]``; if they are there ``tied``, ``pair_weight`` and
    ``label_noise`` ``[B]``, which replaces the argument. Writes the scalar ``loss``.

    Records over pairs that are no ties ``reward_model/accuracy``, share whose margin is above 0,
    and ``reward_model/margin``, score of the chosen minus score of the rejected answer; over ties
    ``reward_model/tied_gap``, distance of the two scores; ``reward_model/ties``, share of ties;
    ``reward_model/nu``.

    Args:
        nu: the tie parameter, or its initial value.
        learnt: whether the learner trains it: ``nu = nu_0 e^{rate x}`` with a parameter ``x``.
        rate: speed of ``log nu`` under Adam, relative to a weight of the model.
        label_noise: e, probability that the label of a pair that is no tie is wrong.
        centring_coef: c, weight of the squared sum of both scores.

    Raises:
        DataError: a pair has not exactly one chosen answer.

    Source:
        Davidson 1970, "On extending the Bradley-Terry model to accommodate ties in paired
        comparison experiments", Journal of the American Statistical Association 65(329).
    """

    equation = (
        "loss = sum_u w_u (l_u + {centring_coef} (r_w + r_l)^2), l = -log(nu e^((r_w + r_l) / 2) "
        "/ Z) of a tie, else -log(e^r_w / Z), Z = e^r_w + e^r_l + nu e^((r_w + r_l) / 2), nu_0 = "
        "{nu}, learnt: {learnt} ({rate}), e = {label_noise}"
    )
    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "pair_weight": ("B", "float", "how much the row's pair counts", {"example": "positive"}),
        "label_noise": ("B", "float", "probability that the label of the row's pair is wrong"),
        "tied": ("B", "bool", "neither answer of the row's pair is preferred"),
    }
    reads = ("model_score", "chosen")
    optional = ("tied", "pair_weight", "label_noise")
    unit_rows = 2

    def __init__(
        self,
        *,
        nu: PositiveFloat = 1.0,
        learnt: bool = True,
        rate: PositiveFloat = 100.0,
        label_noise: Probability = 0.0,
        centring_coef: NonNegativeFloat = 0.01,
    ) -> None:
        super().__init__()
        self.nu = nu
        self.learnt = learnt
        self.rate = rate
        self.label_noise = label_noise
        self.centring_coef = centring_coef
        self.shift = nn.Parameter(torch.zeros(()), requires_grad=learnt)

    def log_nu(self) -> torch.Tensor:
        """Return the log of the tie parameter, a scalar."""
        return math.log(self.nu) + self.rate * self.shift

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
        weight = batch["row_weight"].view(-1, 2)[:, 0]
        # Select first: values of pairs that do not count must not reach nu's gradient.
        score = masked(batch["model_score"], batch["row_weight"] > 0)
        chosen, rejected = sides(score, first_is_chosen(batch["chosen"]))
        tied, noise = torch.zeros_like(weight).bool(), torch.full_like(weight, self.label_noise)
        if "tied" in batch.keys():
            tied = batch["tied"].view(-1, 2)[:, 0]
        if "label_noise" in batch.keys():
            noise = batch["label_noise"].view(-1, 2)[:, 0].to(weight.dtype)
        win, tie = davidson_loss(chosen, rejected, self.log_nu())
        flipped, _ = davidson_loss(rejected, chosen, self.log_nu())
        each = torch.where(tied, tie, relabelled(win, flipped, noise, unbiased=False))
        each = each + self.centring_coef * centring_penalty(chosen, rejected)
        counts, margin = weight > 0, (chosen - rejected).detach()
        record("reward_model/accuracy", margin > 0, where=counts & ~tied)
        record("reward_model/margin", margin, where=counts & ~tied)
        record("reward_model/tied_gap", margin.abs(), where=counts & tied)
        record("reward_model/ties", tied, where=counts)
        record("reward_model/nu", self.log_nu().detach().exp().expand_as(weight), where=counts)
        return scalars(loss=(each * weight).sum())
