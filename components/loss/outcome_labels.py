"""Cross-entropy of an outcome reward model on the correctness of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.errors import DataError
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import RowLoss, scalars
from rlcomp.keys import Key, OwnKey
from rlcomp.metrics import record


class OutcomeLabelLoss(RowLoss):
    """Cross-entropy of an outcome reward model on the correctness of answers.

    ``loss = -sum_i w_i mean_t (R_i log s(q_it) + (1 - R_i) log s(-q_it))``, over the last token of
    the answer or over all tokens. Over all, the score after a token is a value function: the
    log-odds that an answer with this beginning becomes right. The last token's score judges the
    answer.

    Reads ``token_score``, ``response_mask`` ``[B, T]``, ``model_score`` (the last token's) and
    ``reward`` ``[B]``, in [0, 1]. Writes the scalar ``loss``, nats.

    Records ``outcome/accuracy``, the share of answers whose prediction and outcome are on the same
    side of 1/2.

    Args:
        positions: ``last`` or ``all`` tokens.

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
        if bool(((outcome < 0) | (outcome > 1) | outcome.isnan()).any()):
            raise DataError(
                "a reward is not from 0 (wrong) to 1 (right): an outcome has to be; use such a "
                "reward, or loss=score_regression"
            )
        last = masked(batch["model_score"], weight > 0)
        right = (last.detach() > 0) == (outcome > 0.5)
        record("outcome/accuracy", right, where=weight > 0)
        each = _cross_entropy(last, outcome)
        if self.positions == "all":
            mask = batch["response_mask"] & (weight > 0)[:, None]
            score = masked(batch["token_score"], mask)
            tokens = masked(_cross_entropy(score, outcome[:, None].expand(mask.shape)), mask)
            each = tokens.sum(1) / mask.sum(1).clamp(min=1)
        return scalars(loss=torch.where(weight > 0, each * weight, 0.0).sum())


def _cross_entropy(score: Tensor, label: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(score, label.to(score.dtype), reduction="none")
