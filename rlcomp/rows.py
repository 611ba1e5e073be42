"""Given texts as rows of tokens: what a policy would have sampled, had it answered so."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.generation.layout import padded
from rlcomp.model.tokenizer import encode_all, encode_prompts


def encode_rows(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], responses: Sequence[str]
) -> TensorDict:
    """Rows of given answers, for supervised learning and for scoring.

    Prompt and response are tokenised apart, as they are when the response is sampled.

    Args:
        tokenizer: needs an EOS token.
        prompts: ``B`` texts, at least one.
        responses: ``B`` texts, without EOS, which is added.

    Returns:
        On the CPU: ``tokens`` (prompt, response, EOS), ``attention_mask``, ``response_mask``
        (response and EOS), shape ``[B, T]``.

    Raises:
        DataError: a text holds a character the tokenizer cannot write; the message names it.

    Examples:
        >>> from rlcomp.model.tokenizer import character_tokenizer
        >>> encode_rows(character_tokenizer(characters="ab"), ["aa"], ["b"])["tokens"]
        tensor([[2, 2, 3, 1]])
    """
    eos = int(tokenizer.eos_token_id)
    heads = encode_prompts(tokenizer, prompts)
    tails = [[*row, eos] for row in encode_all(tokenizer, responses)]
    pad = eos if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)
    tokens, filled = padded([a + b for a, b in zip(heads, tails, strict=True)], pad)
    starts = torch.tensor([len(head) for head in heads])[:, None]
    answers = filled & (torch.arange(tokens.shape[1]) >= starts)
    columns = {"tokens": tokens, "attention_mask": filled, "response_mask": answers}
    return TensorDict(columns, batch_size=[len(heads)])
