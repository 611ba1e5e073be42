"""Potential of a state: how likely a process reward model finds a right answer from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.keys import Key, OwnKey
from rlcomp.model.token_scorer import TokenScorer


class TokenScore(Component):
    """Potential ``Phi(s) = s(q)``, ``q`` the score of a process reward model in that state.

    Trained on outcomes at all tokens (``loss=outcome_labels``) it is a value function. The scorer
    is frozen here.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``. Writes ``potential``
    ``[B, T]``, of the state before the token, in [0, 1].

    Args:
        scorer: the process reward model.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "potential": ("B T", "float", "Phi of the state before the token, in reward units"),
    }
    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("potential",)
    earlier = ("scorer",)

    scorer: TokenScorer

    def __init__(self, *, scorer: TokenScorer) -> None:
        super().__init__()
        # Past nn.Module: its tensors belong to the node that is trained.
        object.__setattr__(self, "scorer", scorer)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the potential."""
        with torch.no_grad():
            score = self.scorer.scores_before(batch)
        batch["potential"] = masked(score.sigmoid(), batch["response_mask"])
        return batch
