"""Cross-entropy of a process reward model on step labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from tensordict import TensorDict

from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import Loss, scalars
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class StepLabelLoss(Loss):
    """Cross-entropy of a process reward model on step labels.

    ``loss = -(1 / N) sum_k (z_k log s(q_k) + (1 - z_k) log s(-q_k))`` over the ``N`` labelled steps
    of all answers in the optimiser step. ``q_k`` is the score after the token that completes the
    step, ``z_k`` its label: 1 or 0, or the share of continuations that are right.

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
            "how right the step is that ends with the token, from 0 to 1",
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
        # Select both first: NaN outside must not reach the gradient.
        score = masked(batch["token_score"], labelled)
        label = masked(batch["step_label"].detach(), labelled).to(score.dtype)
        each = F.binary_cross_entropy_with_logits(score, label, reduction="none")
        right = (score.detach() > 0) == (label > 0.5)
        record("process/accuracy", right, where=labelled)
        return scalars(loss=torch.where(labelled, each * batch["loss_weight"], 0.0).sum())
