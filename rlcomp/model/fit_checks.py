"""Checks that a model fits the tokenizer and the context of a run."""

from __future__ import annotations

from operator import itemgetter

from transformers import PreTrainedTokenizerBase

from rlcomp.errors import ConfigError


def check_vocabulary(
    owner: str,
    vocab_size: int,
    tokenizer: PreTrainedTokenizerBase,
    otherwise: str = "a larger vocab_size",
) -> None:
    """Check that a model has an id for each token of a tokenizer.

    Args:
        owner: name of the vocabulary's owner, for messages.
        vocab_size: number of ids of the model.
        tokenizer: the run's tokenizer.
        otherwise: a remedy, besides another tokenizer.

    Raises:
        ConfigError: the tokenizer has more tokens, or a greater id; the message names both numbers.
    """
    token, highest = max(tokenizer.get_vocab().items(), key=itemgetter(1), default=("", -1))
    if highest >= max(vocab_size, len(tokenizer)):
        raise ConfigError(
            f"{owner}: the tokenizer's {token!r:.60} is token {highest}, beyond a vocabulary of "
            f"{vocab_size}: use the tokenizer that belongs to the model, or {otherwise}"
        )
    if vocab_size < len(tokenizer):
        raise ConfigError(
            f"{owner}: vocab_size is {vocab_size}, but the tokenizer has {len(tokenizer)} tokens: "
            f"use the tokenizer that belongs to the model, or {otherwise}"
        )


def check_context(path: str, context_length: int | None, limit: int | None) -> None:
    """Check that a model's context is long enough.

    Args:
        path: path of the model, for the message.
        context_length: maximum number of tokens of the run; None: no check.
        limit: the model's own limit; None: it has none.

    Raises:
        ConfigError: the context is too short; the message names both numbers.
    """
    if context_length is not None and limit is not None and context_length > limit:
        raise ConfigError(
            f"context_length is {context_length}, but the model at '{path}' holds {limit} tokens: "
            f"set context_length={limit} or less, and take longer examples out of the task"
        )


def check_same_tokens(
    path: str, saved: PreTrainedTokenizerBase, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Check that a tokenizer has every token of the model's tokenizer ``saved``, at the same id.

    The tokenizer may have more tokens. With other ids the model would silently read wrong tokens.

    Raises:
        ConfigError: names a token with another id.
    """
    vocabulary = tokenizer.get_vocab()
    differing = sorted(
        (index, token)
        for token, index in saved.get_vocab().items()
        if vocabulary.get(token) != index
    )
    if differing:
        index, token = differing[0]
        raise ConfigError(
            f"tokenizer: the model at '{path}' has another one: its token {index} is {token!r} "
            f"({vocabulary.get(token, 'nothing')} in this one); choose tokenizer=pretrained "
            f"tokenizer.path={path}; all models of a run (base, teacher, reference) must have the "
            "same tokenizer"
        )
