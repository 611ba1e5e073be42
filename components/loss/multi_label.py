"""Multi-label binary cross-entropy of a classifier."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from tensordict import TensorDict

from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.metrics import record


class MultiLabel(RowLoss):
    """Binary cross-entropy over the known labels: ``loss = sum_ik m_ik BCE_ik / sum m``.

    ``m`` is 1 if a label is known. Its sum is over the whole optimiser step, so that every known
    label counts the same.

    Reads ``label_logits``, ``labels`` ``[B, K]`` (NaN where unknown). Writes the scalar ``loss``,
    in nats per label.

    Records ``labels/nll`` (nats per known label) and ``labels/known`` (share of labels).

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
