"""Losses from labels of texts, outcomes and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.errors import DataError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import Loss, RowLoss, scalars
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class MultiLabelLoss(RowLoss):
    """Binary cross-entropy over the known labels: ``loss = sum_ik m_ik BCE_ik / sum m``.

    ``m`` is 1 if a label is known, else 0. ``sum m`` is over the whole optimiser step, so that all
    known labels have the same weight.

    Reads ``label_logits``, ``labels`` ``[B, K]`` (NaN where unknown). Writes the scalar ``loss``,
    in nats per label.

    Records ``labels/nll``, nats per known label, and ``labels/known``, the share of known labels.

    Source:
        Bishop 2006, Pattern Recognition and Machine Learning, eq. 4.90, for each label.
    """

    equation = "loss = sum_ik m_ik BCE(s(z_ik), y_ik) / sum_ik m_ik"
    reads = ("label_logits", "labels")

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``row_weight``: one over the number of known labels of the step."""
        rows = super().prepare(batch)["row_weight"] > 0
        known = (~batch["labels"].isnan()).sum(1)
        total = torch.where(rows, known, 0).sum().clamp(min=1)
        return batch.select().set("row_weight", torch.where(rows, 1.0 / total, 0.0))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these texts."""
        batch = self.weighted(batch)
        weight, labels = batch["row_weight"], batch["labels"]
        known = ~labels.isnan() & (weight > 0)[:, None]
        logits = masked(batch["label_logits"], known)
        nll = F.binary_cross_entropy_with_logits(
            logits, masked(labels, known).to(logits.dtype), reduction="none"
        )
        record("labels/nll", nll.detach(), where=known)
        record("labels/known", known.double(), where=(weight > 0)[:, None].expand_as(known))
        return scalars(loss=(masked(nll, known) * weight[:, None]).sum())


class OutcomeLabelLoss(RowLoss):
    """Cross-entropy of an outcome reward model on the correctness of answers.

    ``loss = -sum_i w_i mean_t (R_i log s(q_it) + (1 - R_i) log s(-q_it))``, where ``t`` is the last
    token of the answer or runs over all tokens. If it runs over all tokens, the score after a token
    is a value function: the log-odds that an answer with this beginning becomes right. The last
    token's score judges the answer.

    Reads ``token_score``, ``response_mask`` ``[B, T]``, ``model_score`` (the last token's) and
    ``reward`` ``[B]``, in [0, 1]. Writes the scalar ``loss``, nats.

    Records ``outcome/accuracy``, the share of answers whose prediction and outcome are on the same
    side of 1/2.

    Args:
        positions: the tokens of the loss: ``last``, the last token of an answer, or ``all``.

    Raises:
        DataError: a reward is not in [0, 1].

    Source:
        Cobbe et al. 2021, arXiv:2110.14168, section 4.2 and appendix E (all tokens, or the last);
        Uesato et al. 2022, arXiv:2211.14275.
    """

    equation = "loss = -sum_i w_i mean_t (R_i log s(q_it) + (1 - R_i) log s(-q_it)), t: {positions}"
    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "token_score": ("B T", "float", "q_t: log-odds of a process reward model after the token"),
    }
    reads = ("token_score", "model_score", "response_mask", "reward")

    def __init__(self, *, positions: Literal["last", "all"] = "all") -> None:
        super().__init__()
        self.positions = positions

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these answers."""
        batch = self.weighted(batch)
        weight = batch["row_weight"]
        outcome = masked(batch["reward"].detach(), weight > 0)
        _check_outcomes(outcome, "use such a reward, or loss=score_regression")
        last = masked(batch["model_score"], weight > 0)
        agrees = (last.detach() > 0) == (outcome > 0.5)
        record("outcome/accuracy", agrees, where=weight > 0)
        losses = _cross_entropy(last, outcome)
        if self.positions == "all":
            mask = batch["response_mask"] & (weight > 0)[:, None]
            score = masked(batch["token_score"], mask)
            tokens = masked(_cross_entropy(score, outcome[:, None].expand(mask.shape)), mask)
            losses = tokens.sum(1) / mask.sum(1).clamp(min=1)
        return scalars(loss=torch.where(weight > 0, losses * weight, 0.0).sum())


def _check_outcomes(outcome: Tensor, remedy: str) -> None:
    """Refuse outcomes that are not from 0 to 1; NaN is refused, too."""
    wrong = outcome[~((outcome >= 0) & (outcome <= 1))]
    if len(wrong):
        raise DataError(
            f"an answer has the reward {float(wrong[0]):g}, but an outcome is from 0 (wrong) to 1 "
            f"(right): {remedy}"
        )


def _cross_entropy(score: Tensor, label: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(score, label.to(score.dtype), reduction="none")


class StepLabelLoss(Loss):
    """Cross-entropy of a process reward model on step labels.

    ``loss = -(1 / N) sum_k (z_k log s(q_k) + (1 - z_k) log s(-q_k))`` over the ``N`` labelled steps
    of all answers in the optimiser step. ``q_k`` is the score after the token that completes the
    step, ``z_k`` its label: 1 or 0, or the share of right continuations.

    Reads ``token_score``, ``step_end``, ``step_label``, ``response_mask`` ``[B, T]``. Writes the
    scalar ``loss``, nats per step.

    Records ``process/accuracy``, the share of steps whose prediction and label are on the same side
    of 1/2.

    Source:
        Lightman et al. 2023, arXiv:2305.20050, section 2.6; soft labels: Wang et al. 2023
        (Math-Shepherd), arXiv:2312.08935, eq. 4.
    """

    equation = "loss = -(1 / N) sum_k (z_k log s(q_k) + (1 - z_k) log s(-q_k))"
    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "token_score": ("B T", "float", "q_t: log-odds of a process reward model after the token"),
        "step_label": (
            "B T",
            "float",
            "correctness of the step that ends with the token, from 0 to 1",
            {"example": "probability"},
        ),
    }
    reads = ("token_score", "step_end", "step_label", "response_mask")
    weight_key = "loss_weight"

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return ``loss_weight`` of every labelled step, ``[B, T]``."""
        labelled = batch["step_end"] & batch["response_mask"]
        weight = labelled / labelled.sum().clamp(min=1)
        return batch.select().set("loss_weight", weight)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these steps."""
        batch = self.weighted(batch)
        labelled = batch["step_end"] & batch["response_mask"]
        # Select both first: NaN outside the mask must not reach the gradient.
        score = masked(batch["token_score"], labelled)
        label = masked(batch["step_label"].detach(), labelled)
        losses = _cross_entropy(score, label)
        agrees = (score.detach() > 0) == (label > 0.5)
        record("process/accuracy", agrees, where=labelled)
        return scalars(loss=torch.where(labelled, losses * batch["loss_weight"], 0.0).sum())


class ImplicitOutcomeLoss(RowLoss):
    """Cross-entropy of an implicit reward model on outcomes (PRIME).

    ``loss = -sum_i w_i (R_i log s(r_i) + (1 - R_i) log s(-r_i))`` with
    ``r = beta sum_t (log pi_phi(a_t) - log pi_ref(a_t))``. The labels are outcomes
    of whole answers; the terms of the sum serve as token rewards.

    Reads ``log_probs`` (pi_phi's), ``ref_log_probs``, ``response_mask`` ``[B, T]`` and ``reward``
    ``[B]``, in [0, 1]. Writes the scalar ``loss``, nats per answer.

    Records ``implicit_reward/accuracy``, the share of answers for which ``reward > 1/2`` and
    ``r > 0`` agree.

    Args:
        beta: scale of ``r``, per nat; the same as ``implicit_process.beta``.

    Raises:
        DataError: a reward is not in [0, 1].

    Source:
        Cui et al. 2025 (PRIME), arXiv:2502.01456, eq. 5.
    """

    equation = (
        "loss = -sum_i w_i (R_i log s(r_i) + (1 - R_i) log s(-r_i)), r = {beta} sum_t "
        "(log pi_phi(a_t) - log pi_ref(a_t))"
    )
    reads = ("log_probs", "ref_log_probs", "response_mask", "reward")

    def __init__(self, *, beta: PositiveFloat = 0.05) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these answers."""
        batch = self.weighted(batch)
        mask, weight = batch["response_mask"], batch["row_weight"]
        counts, target = weight > 0, masked(batch["reward"].detach(), weight > 0)
        _check_outcomes(
            target, "use such a reward, and put shaping behind the learner of the reward model"
        )
        ratio = masked(batch["log_probs"], mask) - masked(batch["ref_log_probs"].detach(), mask)
        score = self.beta * ratio.sum(1)
        record("implicit_reward/accuracy", (score.detach() > 0) == (target > 0.5), where=counts)
        losses = _cross_entropy(score, target)
        return scalars(loss=torch.where(counts, losses * weight, 0.0).sum())
