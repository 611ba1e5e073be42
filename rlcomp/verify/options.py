"""Which of two options a model chose: by the probabilities of its first token, or by its words."""

from __future__ import annotations

from collections.abc import Mapping


def option_share(
    first: Mapping[str, float], one: str, other: str, least_mass: float
) -> float | None:
    """``p(one) / (p(one) + p(other))`` over the tokens that begin either of two options.

    White space around a token does not count, nor does a token that begins both. None where both
    together have less than ``least_mass``.

    Examples:
        >>> option_share({"1": 0.25, " 1": 0.125, "2": 0.125, "So": 0.5}, "1", "2", 0.5)
        0.75
        >>> option_share({"1": 0.1, "The": 0.9}, "1", "2", 0.5)
    """
    masses = [
        sum(p for token, p in first.items() if _begins(token, option, against))
        for option, against in ((one, other), (other, one))
    ]
    total = sum(masses)
    return masses[0] / total if 0 < total >= least_mass else None


def _begins(token: str, option: str, other: str) -> bool:
    text = token.strip()
    return bool(text) and option.startswith(text) and not other.startswith(text)


def said_option(text: str, one: str, other: str) -> float | None:
    """1 where a text begins with one option, 0 with the other; None where it does with neither.

    Examples:
        >>> said_option(" 2, because ...", "1", "2"), said_option("Both are good", "1", "2")
        (0.0, None)
        >>> said_option("12", "1", "2")
    """
    said = text.lstrip()
    for option, value in ((one, 1.0), (other, 0.0)):
        behind = said[len(option) : len(option) + 1]
        if said.startswith(option) and not behind.isalnum():
            return value
    return None
