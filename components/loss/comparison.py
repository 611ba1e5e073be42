"""Losses of reward models from comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from tensordict import TensorDict
from torch import nn

from rlcomp.arguments import NonNegativeFloat, PositiveFloat, Probability
from rlcomp.errors import DataError
from rlcomp.functional.preference import label_noise_loss
from rlcomp.functional.reduction import masked
from rlcomp.functional.reward_model import (
    bradley_terry_loss,
    centring_penalty,
    davidson_loss,
    plackett_luce_loss,
)
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.interfaces.preference import PairLoss, first_is_chosen, pair_entry, sides
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class BradleyTerry(PairLoss):
    """Bradley-Terry loss of a reward model on pairs.

    ``loss = sum_u w_u ((1 - e_u) l(r_w - r_l) + e_u l(r_l - r_w) + c (r_w + r_l)^2)``,
    ``l(d) = -log s(d - mu_u)``. With ``e`` > 0 and ``mu`` = 0 the first two terms of a pair are
    least at ``r_w - r_l = log((1 - e) / e)``, as for a soft label ``1 - e`` of the preference.

    Rows 2k and 2k + 1 are a pair, in either order.

    Reads ``model_score``, ``chosen`` ``[B]``; if present ``pair_weight``, ``label_noise``
    and ``pair_margin`` ``[B]``. ``label_noise`` and ``pair_margin`` replace the arguments
    ``label_noise`` and ``margin``. Writes the scalar ``loss``.

    Records over pairs without a tie (noise is not 1/2) ``reward_model/accuracy``, the share of
    pairs whose margin is above 0; ``reward_model/margin``, score of the chosen minus score of the
    rejected answer; ``reward_model/chosen`` and ``reward_model/rejected``, the scores.

    Args:
        margin: mu, the target of the margin ``r_w - r_l``.
        label_noise: e, probability that a label is wrong.
        centring_coef: c, weight of the squared sum of both scores.

    Raises:
        DataError: a pair does not have exactly one chosen answer.

    Source:
        Ouyang et al. 2022 (InstructGPT), arXiv:2203.02155, eq. 1; margin: Touvron et al. 2023
        (Llama 2), arXiv:2307.09288, eq. 2; centring: Eisenstein et al. 2023, arXiv:2312.09244.
    """

    equation = (
        "loss = sum_u w_u ((1 - e) l(r_w - r_l) + e l(r_l - r_w) + {centring_coef} (r_w + r_l)^2), "
        "l(d) = -log s(d - {margin}), e = {label_noise}"
    )
    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "pair_margin": ("B", "float", "target margin of the pair's scores"),
    }
    reads = ("model_score", "chosen")
    optional = ("pair_weight", "label_noise", "pair_margin")

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

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these pairs."""
        batch = self.weighted(batch)
        first = first_is_chosen(batch["chosen"])
        weight = batch["row_weight"].view(-1, 2)[:, 0]
        chosen, rejected = sides(batch["model_score"], first)
        noise = pair_entry(batch, "label_noise", self.label_noise, weight)
        margin = pair_entry(batch, "pair_margin", self.margin, weight)
        unflipped = bradley_terry_loss(chosen, rejected, margin)
        flipped = bradley_terry_loss(rejected, chosen, margin)
        losses = label_noise_loss(unflipped, flipped, noise, unbiased=False)
        losses = losses + self.centring_coef * centring_penalty(chosen, rejected)
        chosen, rejected, counts = chosen.detach(), rejected.detach(), (weight > 0) & (noise != 0.5)
        record("reward_model/accuracy", chosen > rejected, where=counts)
        record("reward_model/margin", chosen - rejected, where=counts)
        record("reward_model/chosen", chosen, where=counts)
        record("reward_model/rejected", rejected, where=counts)
        return scalars(loss=torch.where(weight > 0, losses * weight, 0.0).sum())


class Davidson(PairLoss):
    """Davidson loss of a reward model on pairs with ties.

    ``loss = sum_u w_u (l_u + c (r_w + r_l)^2)``; ``l`` = ``-log P(tie)`` for a tie, otherwise
    ``(1 - e) (-log P(w)) + e (-log P(l))``, with ``P(w) = e^{r_w} / Z``,
    ``P(tie) = nu e^{(r_w + r_l) / 2} / Z`` and ``Z`` the sum over win, loss and tie. Ties pull the
    two scores together. For equal scores ``P(tie) = nu / (2 + nu)``.

    Rows 2k and 2k + 1 are a pair, in either order.

    Reads ``model_score``, ``chosen`` ``[B]``; if present ``tied``, ``pair_weight`` and
    ``label_noise`` ``[B]``, which replaces the argument ``label_noise``. Writes the scalar
    ``loss``.

    Records over pairs without a tie ``reward_model/accuracy``, the share of pairs whose margin
    is above 0, and ``reward_model/margin``, score of the chosen minus score of the rejected answer;
    over ties ``reward_model/tied_gap``, the distance of the two scores; ``reward_model/ties``, the
    share of ties; ``reward_model/nu``.

    Args:
        nu: the tie parameter; its initial value ``nu_0`` if it is learnt.
        learnt: whether the learner trains it: ``nu = nu_0 e^{rate x}`` with a parameter ``x``.
        rate: factor by which ``log nu`` moves faster under Adam than a weight of the model.
        label_noise: e, probability that a label is wrong; ties have none.
        centring_coef: c, weight of the squared sum of both scores.

    Raises:
        DataError: a pair does not have exactly one chosen answer.

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
        "tied": ("B", "bool", "the row's pair is a tie"),
    }
    reads = ("model_score", "chosen")
    optional = ("tied", "pair_weight", "label_noise")

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
        self.shift = nn.Parameter(torch.zeros(()), requires_grad=learnt)  # the ``x`` of ``nu``

    def log_nu(self) -> torch.Tensor:
        """Return the log of the tie parameter, a scalar."""
        return math.log(self.nu) + self.rate * self.shift

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these pairs."""
        batch = self.weighted(batch)
        weight = batch["row_weight"].view(-1, 2)[:, 0]
        # Select first: values of pairs that do not count must not reach nu's gradient.
        score = masked(batch["model_score"], batch["row_weight"] > 0)
        chosen, rejected = sides(score, first_is_chosen(batch["chosen"]))
        tied = pair_entry(batch, "tied", 0.0, weight).bool()
        noise = pair_entry(batch, "label_noise", self.label_noise, weight)
        win, tie = davidson_loss(chosen, rejected, self.log_nu())
        flipped, _ = davidson_loss(rejected, chosen, self.log_nu())
        losses = torch.where(tied, tie, label_noise_loss(win, flipped, noise, unbiased=False))
        losses = losses + self.centring_coef * centring_penalty(chosen, rejected)
        counts, margin = weight > 0, (chosen - rejected).detach()
        record("reward_model/accuracy", margin > 0, where=counts & ~tied)
        record("reward_model/margin", margin, where=counts & ~tied)
        record("reward_model/tied_gap", margin.abs(), where=counts & tied)
        record("reward_model/ties", tied, where=counts)
        record("reward_model/nu", self.log_nu().detach().exp().expand_as(weight), where=counts)
        return scalars(loss=(losses * weight).sum())


class PlackettLuce(RowLoss):
    """Plackett-Luce loss of a reward model on rankings of ``K`` answers to a prompt.

    ``loss = sum_u w_u sum_k [log sum_{j >= k} exp r_(j) - r_(k)]``, ``r_(1)`` the score of the
    answer with the highest reward. Equal rewards are ties in Breslow's form.

    Rows ``K u`` to ``K u + K - 1`` are the answers to one prompt.

    Reads ``model_score``, ``reward``, ``group_id`` ``[B]``. Writes the scalar ``loss``.

    Records ``reward_model/top``, the share of rankings in which the answer with the highest score
    has the highest reward.

    Args:
        group_size: K, number of answers in a ranking.

    Raises:
        DataError: the rows of a ranking answer different prompts, for example after a filter that
            drops rows.

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
                f"{size} adjacent rows are not the answers to one prompt: set loss.group_size to "
                "the rollout's group_size, and put no filter between rollout and loss"
            )
        losses, weight = plackett_luce_loss(score, rating), weight[:, 0]
        counts = weight > 0
        best = rating.gather(1, score.detach().argmax(1, keepdim=True))[:, 0]
        record("reward_model/top", best == rating.amax(1), where=counts)
        return scalars(loss=torch.where(counts, losses * weight, 0.0).sum())
