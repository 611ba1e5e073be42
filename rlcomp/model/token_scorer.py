"""Process reward model: a score after every token of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.keys import Key, OwnKey
from rlcomp.model.scorer import Scorer
from rlcomp.model.token_rows import token_rows
from rlcomp.model.value_head import read_values


class TokenScorer(Scorer):
    """Process reward model ``q_t = w . h_t``: a copy of a policy's backbone with a scalar head.

    ``h_t`` is the state after token t. So ``s(q_t)`` is the probability that the step which ends
    there is right, or that the answer will be.

    Copied and trained like :class:`rlcomp.model.scorer.Scorer`. Like it, it also scores the whole
    answer, after its last token that is not a stop token.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``. Writes ``token_score`` ``[B,
    T]``, log-odds, differentiable, 0 outside the response; and ``model_score`` ``[B]``, the score
    of the last token.

    Args:
        policy: its model is copied; it defines the tokens that end an answer.
        engine: the compute engine of the backbone.

    Source:
        Lightman et al. 2023, arXiv:2305.20050, section 2.6; Uesato et al. 2022, arXiv:2211.14275.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "token_score": ("B T", "float", "q_t: log-odds of a process reward model after the token"),
    }
    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("token_score", "model_score")

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the scores, with gradient where gradients are enabled."""
        score = batch["token_score"] = self.token_scores(batch)
        rows = self._read(batch)
        last = rows["response_mask"][:, 1:] & batch["response_mask"]
        batch["model_score"] = (score * last).sum(1)
        return batch

    def token_scores(self, batch: TensorDict) -> Tensor:
        """Compute the scores after the response tokens of a batch, shape ``[B, T]``, log-odds."""
        own = token_rows(type(self).__name__, batch)
        # The state after token t is the state before column t + 1.
        rows = {
            "tokens": F.pad(own["tokens"], (0, 1)),
            "attention_mask": F.pad(own["attention_mask"], (1, 0), value=True),
            "response_mask": F.pad(own["response_mask"], (1, 0)),
        }
        read = TensorDict(rows, batch_size=batch.batch_size)
        return read_values(self.backbone, self._transformer, self.score_head, read)[:, 1:]

    def scores_before(self, batch: TensorDict) -> Tensor:
        """Compute the scores before the response tokens of a batch, shape ``[B, T]``, log-odds."""
        return read_values(self.backbone, self._transformer, self.score_head, batch)
