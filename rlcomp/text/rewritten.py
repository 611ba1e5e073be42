"""Rows of a batch with other responses, written like demonstrations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.batch import decode_columns, decode_texts, encode_texts, keep_prompt
from rlcomp.columns import CONVERSATION
from rlcomp.interfaces.prompt import Prompt
from rlcomp.text.rows import demonstration_rows


def with_responses(
    batch: TensorDict,
    responses: Sequence[str],
    *,
    prompt: Prompt,
    tokenizer: PreTrainedTokenizerBase,
) -> TensorDict:
    """Return rows of a batch's prompts with the given responses, to imitate or to score.

    Args:
        batch: ``[B]`` rows with ``prompt`` and ``group_id``, and ``columns`` if there are any.
        responses: ``B`` texts, without the token that ends a response, which is added.
        prompt: encodes prompts and responses.
        tokenizer: the policy's.

    Returns:
        ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, ``prompt``, ``response``,
        ``group_id``, and the entries that belong to prompts; no entry of a rollout.

    Raises:
        DataError: a text holds a character the tokenizer cannot write.
    """
    columns = decode_columns(batch, [CONVERSATION])
    texts = decode_texts(batch["prompt"])
    rows = demonstration_rows(tokenizer, prompt.demonstrations(texts, list(responses), columns))
    rows["response"] = encode_texts(list(responses))
    device = batch["group_id"].device
    rows = rows.to(device)
    rows["prompt"], rows["group_id"] = batch["prompt"], batch["group_id"]
    return keep_prompt(rows, batch, torch.arange(len(texts), device=device))
