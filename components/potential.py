"""Potentials of states, for potential-based reward shaping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.reduction import masked
from rlcomp.keys import Key, OwnKey
from rlcomp.model.scorer import TokenScorer


class StepScore(Component):
    """Potential ``Phi(s) = p_k``, the score of the state's latest complete step.

    ``Phi(s) = 0`` before the end of the first step.

    Reads ``step_score``, ``step_end``, ``response_mask`` ``[B, T]``. Writes ``potential``
    ``[B, T]`` of the state before each token.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "step_score": (
            "B T",
            "float",
            "p_k: probability that the step ending at this token is right",
            {"example": "probability"},
        ),
        "potential": ("B T", "float", "Phi of the state before the token, in reward units"),
    }
    reads = ("step_score", "step_end", "response_mask")
    writes = ("potential",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the potential; return the batch."""
        ends, score = batch["step_end"] & batch["response_mask"], batch["step_score"].detach()
        column = torch.arange(1, score.shape[1] + 1, device=score.device)
        # Latest step end before each token: its column, counted from 1; 0 if there is none.
        latest_end = (column * ends).cummax(1).values.roll(1, 1)
        latest_end[:, 0] = 0
        value = score.gather(1, (latest_end - 1).clamp(min=0))
        batch["potential"] = masked(value, (latest_end > 0) & batch["response_mask"])
        return batch


class TokenScore(Component):
    """Potential ``Phi(s) = sigmoid(q)`` with a process reward model's score ``q`` of the state.

    If the model was trained on outcomes at all tokens (``loss=outcome_labels``), the potential is a
    value function. This component does not train the scorer.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``. Writes ``potential``
    ``[B, T]`` of the state before each token, in [0, 1].

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
        # Bypass nn.Module, because the node that trains the scorer owns its tensors.
        object.__setattr__(self, "scorer", scorer)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the potential; return the batch."""
        with torch.no_grad():
            score = self.scorer.scores_before(batch)
        batch["potential"] = masked(score.sigmoid(), batch["response_mask"])
        return batch
