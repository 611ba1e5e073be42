"""Preference tokens: one token of the vocabulary for every point of the lattice on the simplex."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tokenizers import AddedToken

from rlcomp.arguments import PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.functional.min_norm import lattice

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TOKEN = re.compile(r"<preference(?::\d+)+>")


def preference_token(steps: Sequence[int]) -> str:
    """Return the spelling of a preference: the number of steps, each ``1/n``, of each objective.

    Examples:
        >>> preference_token([7, 3])
        '<preference:7:3>'
    """
    return f"<preference:{':'.join(map(str, steps))}>"


def preference_points(tokenizer: PreTrainedTokenizerBase) -> dict[int, tuple[int, ...]]:
    """Return the preference tokens of a tokenizer: the steps of each objective, by id."""
    added = tokenizer.get_added_vocab()
    return {
        index: tuple(map(int, re.findall(r"\d+", text)))
        for text, index in added.items()
        if _TOKEN.fullmatch(text)
    }


def preference_tokenizer(
    *, tokenizer: PreTrainedTokenizerBase, num_objectives: PositiveInt = 2, levels: PositiveInt = 10
) -> PreTrainedTokenizerBase:
    """Add one token for every point of the lattice of preferences to a tokenizer, in place.

    A policy reads these tokens and never writes them (``suppressed_token_mask``).

    Args:
        tokenizer: changed in place, and returned.
        num_objectives: ``K``.
        levels: ``n``: weights are multiples of ``1/n``; 10 with two objectives makes 11 tokens.

    Raises:
        ConfigError: the tokenizer has such tokens already.
    """
    if preference_points(tokenizer):
        raise ConfigError("tokenizer: it has tokens for preferences already; add them once")
    # Not `special`: our tokenizers read special tokens in a text as text.
    tokens = [
        AddedToken(preference_token(point), normalized=False, special=False)
        for point in lattice(num_objectives, levels).tolist()
    ]
    tokenizer.add_tokens(tokens)
    return tokenizer
