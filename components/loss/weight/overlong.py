"""DAPO's overlong filtering as a loss weight: truncated responses get weight 0."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class OverlongMask(Part):
    """DAPO's overlong filtering.

    ``c_it = 0`` if response ``i`` is truncated, else 1.

    Truncated responses stay in the denominator of the loss and in the statistics of their group.

    Reads ``truncated`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``token_weight`` ``[B, T]``.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.4 (overlong filtering).
    """

    equation = "c_t = 0 if the response is truncated, else 1"
    reads = ("truncated", "response_mask")
    writes = ("token_weight",)
    changes_on_policy_gradient = True

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write 1 for the tokens of complete answers, else 0."""
        mask, cut = batch["response_mask"], batch["truncated"][:, None]
        record("weight/dropped_overlong", cut.expand_as(mask), where=mask)
        batch["token_weight"] = (mask & ~cut).to(torch.get_default_dtype())
        return batch
