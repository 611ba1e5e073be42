"""KTO: a loss of single answers with a label, desirable or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.preference import kto_loss
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class KTOLoss(RowLoss):
    """KTO: value of an answer relative to the mean log-ratio of answers to other prompts.

    ``loss = sum_i w_i lambda_i (1 - s(beta y_i (u_i - z0)))`` with ``y_i`` = 1 for a desirable
    answer, else -1, ``z0`` = ``kl_baseline`` and weights ``w_i`` of a mean over the answers of the
    optimiser step.

    KTO needs no pairs. The rows of a pair are a desirable and an undesirable answer.

    Reads ``log_probs``, ``response_mask`` ``[B, T]``, ``chosen`` ``[B]`` (the answer is desirable),
    ``kl_baseline`` ``[B]``, nats, and the keys of the score; if they are there ``ref_log_probs``
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
        "pair_weight": ("B", "float", "how much the row's pair counts", {"example": "positive"}),
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
        self._record(batch)
        return scalars(loss=(losses * batch["row_weight"]).sum())

    def _record(self, batch: TensorDict) -> None:
        mask, counts = batch["response_mask"], batch["row_weight"] > 0
        sums = masked(batch["log_probs"].detach(), mask).sum(1)
        metrics = {"log_prob": sums}
        if "ref_log_probs" in batch.keys():
            metrics["change"] = sums - masked(batch["ref_log_probs"].detach(), mask).sum(1)
        for name, values in metrics.items():
            record(f"preference/chosen_{name}", values, where=counts & batch["chosen"])
            record(f"preference/rejected_{name}", values, where=counts & ~batch["chosen"])
        record("preference/baseline", batch["kl_baseline"], where=counts)
