"""Training on thoughts only (RLP)."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText
from rlcomp.component import Component
from rlcomp.metrics import record
from rlcomp.text.thoughts import ThoughtEnd, responses


class ThoughtOnly(Component):
    """Filter that restricts ``response_mask`` to the thought, ``think_end`` included.

    A response without ``think_end`` is all thought. The filter comes after the advantage, like the
    others. ``reward=information_gain`` also scores the thought only.

    Reads ``tokens``, ``response_mask`` ``[B, T]``. Writes ``response_mask``. Records
    ``filter/answer_fraction``, the share of response tokens that it masks.

    Args:
        tokenizer: the policy's tokenizer, a fast one.
        think_end: the text that ends a thought.

    Raises:
        DataError: the tokenizer cannot write ``think_end``.

    Source:
        Hatamizadeh et al. 2025 (RLP), arXiv:2510.01265.
    """

    reads = ("tokens", "response_mask")
    writes = ("response_mask",)

    def __init__(
        self, *, tokenizer: PreTrainedTokenizerBase, think_end: NonEmptyText = "</think>"
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.think_end = think_end
        self._end = ThoughtEnd(tokenizer, think_end)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Restrict the masks to the thoughts."""
        mask = batch["response_mask"]
        rows, starts = responses(batch)
        places = [self._end.length(row) for row in rows]
        lengths = [len(row) if n is None else n for row, n in zip(rows, places, strict=True)]
        ends = starts + torch.tensor(lengths, device=mask.device)
        thought = torch.arange(mask.shape[1], device=mask.device) < ends[:, None]
        batch["response_mask"] = mask & thought
        record("filter/answer_fraction", ~thought, where=mask)
        return batch
