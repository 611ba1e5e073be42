"""Tokens that end a response."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.errors import ConfigError, DataError
from rlcomp.text.special_tokens import special_ids


def stop_ids(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, stop_tokens: Sequence[str] = ()
) -> list[int]:
    """Return ids that end a response: the tokenizer's EOS, then the ids of the model's config.

    A chat model has several in its ``generation_config``: the end of a turn and the end of a text.
    Only special tokens among them count: a config made without a tokenizer has the EOS id of
    another tokenizer, and this id is an ordinary token here.

    Args:
        model: with its ``generation_config``.
        tokenizer: has an EOS token.
        stop_tokens: further ones, as text: ``["<|im_end|>"]``.

    Raises:
        ConfigError: a stop token is no token of the tokenizer.
        DataError: the EOS of the ``generation_config`` is no id of the model.
    """
    vocabulary = tokenizer.get_vocab()
    for token in stop_tokens:
        if token not in vocabulary:
            raise ConfigError(
                f"policy.stop_tokens: {token!r:.60} is no token of the tokenizer: write one as it "
                "stands in its vocabulary"
            )
    named = getattr(model.generation_config, "eos_token_id", None)
    ids = named if isinstance(named, (list, tuple)) else [] if named is None else [named]
    size = int(model.config.get_text_config().vocab_size)
    for one in ids:
        if not isinstance(one, int) or isinstance(one, bool) or not 0 <= one < size:
            raise DataError(
                f"the model's generation_config.json says that eos_token_id is {named!r:.60}, but "
                f"its tokens are 0 to {size - 1}: take the file that belongs to the model"
            )
    ends = [one for one in ids if one in special_ids(tokenizer)]
    chosen = [vocabulary[token] for token in stop_tokens]
    return [*dict.fromkeys([int(tokenizer.eos_token_id), *ends, *chosen])]
