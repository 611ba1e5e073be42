"""Demonstration rows with the conditioned prompt."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.batch import decode_columns, decode_texts, keep_prompt
from rlcomp.columns import CONVERSATION
from rlcomp.component import Component
from rlcomp.interfaces.prompt import Prompt
from rlcomp.text.padding import padded
from rlcomp.text.prompt import or_text


class AskedRows(Component):
    """Stage that re-encodes demonstration rows with ``policy_prompt`` instead of ``prompt``.

    It serves the warm start (SFT) of a preference-conditioned policy, which would otherwise meet
    preferences only in its rollouts.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``prompt``,
    ``policy_prompt`` ``[B, W]`` and ``columns`` (conversations). Writes a new batch with the first
    three, in which the tokens after the prompt follow ``policy_prompt``; of a conversation, these
    are all trained tokens. The prompt's entries stay.

    Args:
        tokenizer: the one the rows were encoded with.
        prompt: how prompts became tokens; plain text if not given.
    """

    reads = ("tokens", "attention_mask", "response_mask", "prompt", "policy_prompt")
    writes = ("tokens", "attention_mask", "response_mask")
    optional = ("columns",)
    fresh = True
    keeps_prompt = True

    def __init__(self, *, tokenizer: PreTrainedTokenizerBase, prompt: Prompt | None = None) -> None:
        super().__init__()
        self.prompt = or_text(prompt, tokenizer)
        self.tokenizer = tokenizer

    def forward(self, batch: TensorDict) -> TensorDict:
        """Re-encode the rows."""
        texts = (decode_texts(batch[key]) for key in ("prompt", "policy_prompt"))
        known = decode_columns(batch, [CONVERSATION])
        before, after = (self.prompt.encode(each, known) for each in texts)
        lengths = batch["attention_mask"].sum(1).tolist()
        rows, masks = [], []
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            behind = slice(len(old), lengths[index])
            rows.append([*new, *batch["tokens"][index, behind].tolist()])
            masks.append([*[0] * len(new), *batch["response_mask"][index, behind].tolist()])
        pad, eos = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        tokens, filled = padded(rows, int(eos if pad is None else pad))
        columns = {
            "tokens": tokens,
            "attention_mask": filled,
            "response_mask": padded(masks, 0)[0].bool(),
        }
        device = batch["tokens"].device
        entries = {key: column.to(device) for key, column in columns.items()}
        rows = TensorDict(entries, batch_size=batch.batch_size)
        return keep_prompt(rows, batch, torch.arange(len(batch), device=device))
