"""Preference losses of pairs (score, link and label noise) and of single answers (KTO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.functional.preference import kto_loss, label_noise_loss
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.interfaces.preference import PairLoss, first_is_chosen, pair_entry, sides
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class PreferenceLoss(PairLoss):
    """Preference loss of pairs (DPO, IPO, SimPO, ORPO, ...) composed of parts.

    ``loss = c sum_u w_u ((1 - e_u) l_u + e_u l'_u) - mu sum_t v_t log pi(a_t)``.

    ``l_u`` = ``pair_loss`` is the link's loss of both scores, ``l'_u`` = ``flipped_loss`` the loss
    with a flipped label. ``w_u`` are the weights of a mean over the pairs of the optimiser step,
    ``v_t`` the weights of a mean over the tokens of the step's chosen answers, in which a token
    counts by its pair's ``w_u``; ``c`` = ``pair_coef``, ``mu`` = ``nll_coef``.

    A method such as DPO is a choice of parts, not a class. Rows 2k and 2k + 1 are a pair, in either
    order.

    Reads ``log_probs``, ``response_mask`` ``[B, T]``, ``chosen`` ``[B]`` and the keys of the parts;
    if present ``ref_log_probs`` ``[B, T]`` (only recorded), ``pair_weight`` ``[B]`` and
    ``label_noise`` ``[B]``, which replaces the argument ``label_noise``. Writes the scalar
    ``loss``.

    Records over pairs ``preference/chosen_log_prob`` and ``preference/rejected_log_prob``, nats per
    answer; ``preference/chosen_change`` and ``preference/rejected_change``, the log-prob minus the
    reference's log-prob; ``preference/margin``, score of the chosen minus score of the rejected
    answer; ``preference/accuracy``, the share of pairs whose margin is above 0;
    ``preference/chosen_nll``, nats per token of chosen answers.

    Args:
        score: writes ``score`` of every row.
        link: writes ``pair_loss`` and ``flipped_loss`` of every pair.
        label_noise: e, probability that a label is wrong.
        unbiased: use robust DPO's form, ``((1 - e) l - e l') / (1 - 2 e)``, for e below 1/2.
        pair_coef: c, weight of the pairs (ORPO's lambda).
        nll_coef: mu, weight of the negative log-likelihood of the chosen answers (CPO, ORPO).

    Raises:
        ConfigError: ``unbiased`` with e of at least 1/2.
        DataError: a pair does not have exactly one chosen answer.

    Source:
        Rafailov et al. 2023 (DPO), arXiv:2305.18290, eq. 7; labels: Mitchell 2023 (cDPO), Chowdhury
        et al. 2024 (rDPO), arXiv:2403.00409; likelihood: Xu et al. 2024 (CPO), arXiv:2401.08417.
    """

    equation = (
        "loss = {pair_coef} sum_u w_u ((1 - e) l_u + e l'_u) - {nll_coef} sum_t v_t log pi(a_t), "
        "e = {label_noise}, unbiased: {unbiased}"
    )
    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "common_length": ("B", "int64", "response tokens of the shorter answer of the row's pair"),
        "chosen_score": ("B", "float", "u_w: score of the pair's chosen answer"),
        "rejected_score": ("B", "float", "u_l: score of the pair's rejected answer"),
    }
    reads = ("log_probs", "response_mask", "chosen")
    optional = ("ref_log_probs", "pair_weight", "label_noise")
    runs = ("score", "link")
    contained = True
    supplies = ("common_length", "chosen_score", "rejected_score")

    def __init__(
        self,
        *,
        score: Component,
        link: Component,
        label_noise: Probability = 0.0,
        unbiased: bool = False,
        pair_coef: NonNegativeFloat = 1.0,
        nll_coef: NonNegativeFloat = 0.0,
    ) -> None:
        super().__init__()
        if unbiased and label_noise >= 0.5:
            raise ConfigError(
                f"loss.label_noise is {label_noise} and loss.unbiased is true: such labels have no "
                "information; set loss.label_noise below 0.5"
            )
        self.score = score
        self.link = link
        self.label_noise = label_noise
        self.unbiased = unbiased
        self.pair_coef = pair_coef
        self.nll_coef = nll_coef

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``row_weight`` ``[B]`` and, for chosen answers, ``loss_weight`` ``[B, T]``."""
        prepared = super().prepare(batch)
        chosen_tokens = batch["response_mask"] & batch["chosen"][:, None]
        tokens = masked(prepared["row_weight"][:, None], chosen_tokens)
        total = tokens.sum()
        return prepared.set("loss_weight", tokens / torch.where(total > 0, total, 1.0))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these pairs."""
        batch = self.weighted(batch)
        first = first_is_chosen(batch["chosen"])
        weight = batch["row_weight"].view(-1, 2)[:, 0]
        pairs = self._pairs(batch, first)
        noise = pair_entry(batch, "label_noise", self.label_noise, weight)
        losses = label_noise_loss(
            pairs["pair_loss"], pairs["flipped_loss"], noise, unbiased=self.unbiased
        )
        nll = -masked(batch["log_probs"], batch["response_mask"] & batch["chosen"][:, None])
        self._record(batch, pairs, first, weight > 0)
        nll_term = self.nll_coef * (nll * batch["loss_weight"]).sum()
        return scalars(loss=self.pair_coef * (losses * weight).sum() + nll_term)

    def _pairs(self, batch: TensorDict, first: Tensor) -> TensorDict:
        """Return the pairs as rows with both scores and the losses."""
        length = batch["response_mask"].sum(1).view(-1, 2).amin(1)
        view = batch.copy().set("common_length", length.repeat_interleave(2))
        chosen, rejected = sides(self.score(view)["score"], first)
        scores = {"chosen_score": chosen, "rejected_score": rejected}
        return self.link(TensorDict(scores, batch_size=[len(first)]))

    def _record(self, batch: TensorDict, pairs: TensorDict, first: Tensor, counts: Tensor) -> None:
        for name, values in _row_metrics(batch).items():
            chosen, rejected = sides(values, first)
            record(f"preference/chosen_{name}", chosen, where=counts)
            record(f"preference/rejected_{name}", rejected, where=counts)
        margin = (pairs["chosen_score"] - pairs["rejected_score"]).detach()
        record("preference/margin", margin, where=counts)
        record("preference/accuracy", margin > 0, where=counts)
        mask = batch["response_mask"]
        tokens = mask & batch["chosen"][:, None] & counts.repeat_interleave(2)[:, None]
        record("preference/chosen_nll", -masked(batch["log_probs"].detach(), mask), where=tokens)


def _row_metrics(batch: TensorDict) -> dict[str, Tensor]:
    """Return the log-prob of each answer and its change from the reference, nats, ``[B]``."""
    mask = batch["response_mask"]
    sums = masked(batch["log_probs"].detach(), mask).sum(1)
    if "ref_log_probs" not in batch.keys():
        return {"log_prob": sums}
    change = sums - masked(batch["ref_log_probs"].detach(), mask).sum(1)
    return {"log_prob": sums, "change": change}


class KTOLoss(RowLoss):
    """KTO: value of an answer relative to the mean log-ratio of answers to other prompts.

    ``loss = sum_i w_i lambda_i (1 - s(beta y_i (u_i - z0)))`` with ``y_i`` = 1 for a desirable
    answer, else -1, ``z0`` = ``kl_baseline`` and weights ``w_i`` of a mean over the answers of the
    optimiser step.

    KTO needs no pairs. The rows of a pair are a desirable and an undesirable answer.

    Reads ``log_probs``, ``response_mask`` ``[B, T]``, ``chosen`` ``[B]`` (the answer is desirable),
    ``kl_baseline`` ``[B]``, nats, and the keys of the score; if present ``ref_log_probs``
    ``[B, T]`` (only recorded) and ``pair_weight`` ``[B]``. Writes the scalar ``loss``.

    Records ``preference/chosen_log_prob`` and ``preference/rejected_log_prob``, nats per desirable
    and per undesirable answer; ``preference/chosen_change`` and ``preference/rejected_change``, the
    log-prob minus the reference's log-prob; ``preference/baseline``, z0 in nats.

    Args:
        score: writes ``score`` of every row.
        beta: scale of the scores, per nat.
        desirable_weight: lambda_D, the lambda of desirable answers. With ``n_D`` desirable and
            ``n_U`` undesirable answers, ``lambda_D n_D / (lambda_U n_U)`` should be 1 to 4/3.
        undesirable_weight: lambda_U, the lambda of undesirable answers.

    Source:
        Ethayarajh et al. 2024 (KTO), arXiv:2402.01306, eq. 8, without its constant, as in trl.
    """

    equation = (
        "loss = sum_i w_i lambda_i (1 - s({beta} y_i (u_i - z0))), y_i = +-1, lambda = "
        "{desirable_weight} or {undesirable_weight}"
    )
    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "pair_weight": ("B", "float", "weight of the row's pair", {"example": "positive"}),
        "kl_baseline": (
            "B",
            "float",
            "z0: log-ratio of answers to other prompts, at least 0; nats, the same in all rows",
            {"example": "same_in_all_rows"},
        ),
    }
    reads = ("log_probs", "response_mask", "chosen", "kl_baseline")
    optional = ("ref_log_probs", "pair_weight")
    runs = ("score",)
    contained = True

    def __init__(
        self,
        *,
        score: Component,
        beta: PositiveFloat = 0.1,
        desirable_weight: NonNegativeFloat = 1.0,
        undesirable_weight: NonNegativeFloat = 1.0,
    ) -> None:
        super().__init__()
        self.score = score
        self.beta = beta
        self.desirable_weight = desirable_weight
        self.undesirable_weight = undesirable_weight

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``row_weight`` of every row, ``[B]``."""
        prepared = super().prepare(batch)
        if "pair_weight" in batch.keys():
            weight = masked(batch["pair_weight"], prepared["row_weight"] > 0)
            prepared["row_weight"] = weight / torch.where(weight.sum() > 0, weight.sum(), 1.0)
        return prepared

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        losses = kto_loss(
            self.score(batch.copy())["score"],
            batch["chosen"],
            batch["kl_baseline"],
            self.beta,
            self.desirable_weight,
            self.undesirable_weight,
        )
        counts = batch["row_weight"] > 0
        for name, values in _row_metrics(batch).items():
            record(f"preference/chosen_{name}", values, where=counts & batch["chosen"])
            record(f"preference/rejected_{name}", values, where=counts & ~batch["chosen"])
        record("preference/baseline", batch["kl_baseline"], where=counts)
        return scalars(loss=(losses * batch["row_weight"]).sum())
