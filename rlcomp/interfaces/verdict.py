"""Verdicts of a verifier: the option at the end of a text."""

from __future__ import annotations

from collections.abc import Sequence

from rlcomp.errors import ConfigError


def verdict_options(
    part: str, accept: str, reject: str, stop: str | None = None
) -> tuple[str, str]:
    """Return both options, the accepting one first.

    Args:
        part: their owner, for the message.
        accept: text that accepts an answer.
        reject: text that rejects it.
        stop: text that ends a turn and is not part of it.

    Raises:
        ConfigError: one ends with the other, so that a text could end with both; or one ends with
            space, which is ignored; or the stop text would cut one short.
    """
    for name, option in (("accept", accept), ("reject", reject)):
        if option != option.rstrip():
            raise ConfigError(f"{part}.{name} is {option!r}: must not end with space")
        if stop and stop in option:
            raise ConfigError(
                f"{part}.stop is {stop!r}, which {part}.{name}={option!r} holds: the verdict would "
                "be cut short; change one"
            )
    if accept.endswith(reject) or reject.endswith(accept):
        raise ConfigError(
            f"{part}: of accept {accept!r} and reject {reject!r} one ends with the other, so that "
            "both would be said at once: change one"
        )
    return accept, reject


def said_verdict(said: str, options: Sequence[str]) -> int | None:
    """Return the option that a text ends with, ignoring trailing space; None: no verdict.

    A word that ends with an option counts as one: with ``y``, ``nobody`` accepts. For a model that
    writes words use whole sentences or marked options such as ``<accept>``.

    Examples:
        >>> said_verdict("1+2=3 y ", ("y", "n")), said_verdict("yes?", ("y", "n"))
        (0, None)
    """
    ends = [number for number, option in enumerate(options) if said.rstrip().endswith(option)]
    return ends[0] if ends else None
