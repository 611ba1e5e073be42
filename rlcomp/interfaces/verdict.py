"""Verdicts of a verifier: the option that a text ends with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rlcomp.errors import ConfigError

_Texts = TypeVar("_Texts", str, list[int])


def verdict_options(part: str, accept: str, reject: str) -> tuple[str, str]:
    """Both options, the accepting one first.

    Args:
        part: what has them, for the message.
        accept: text that says an answer is right.
        reject: that it is wrong.

    Raises:
        ConfigError: one ends with the other, so that both would be said at once.
    """
    if accept.endswith(reject) or reject.endswith(accept):
        raise ConfigError(
            f"{part}: of accept {accept!r} and reject {reject!r} one ends with the other, so that "
            "both would be said at once: change one"
        )
    return accept, reject


def said_verdict(said: _Texts, options: Sequence[_Texts]) -> int | None:
    """Which option a text (or its ids) ends with; None: no verdict.

    Examples:
        >>> said_verdict("1+2=3 y", ("y", "n")), said_verdict("yes?", ("y", "n"))
        (0, None)
    """
    ends = [number for number, option in enumerate(options) if said[-len(option) :] == option]
    return ends[0] if ends else None
