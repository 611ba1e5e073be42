"""Regular-expression matches in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.data.positions import Span, Tokenised, byte_spans
from rlcomp.errors import ConfigError


class Pattern(metaclass=Checked):
    r"""Positions at which a pattern matches.

    Args:
        pattern: one or several regular expressions; group 1 is the span, such as ``=(\d)``. Empty
            matches are skipped. ``^`` and ``$`` match at the ends of the whole text; with ``(?m)``
            in front, at the ends of lines. Matches of one pattern do not overlap; groups of a
            look-ahead, ``(?=(\w\w))``, and groups of two patterns may.

    Raises:
        ConfigError: there is no pattern, or one is no regular expression or has no group.
    """

    def __init__(self, *, pattern: NonEmptyText | Sequence[NonEmptyText]) -> None:
        patterns = [pattern] if isinstance(pattern, str) else list(pattern)
        if not patterns:
            raise ConfigError("Pattern: pattern is an empty list: give a regular expression")
        self._found = [_compiled(one) for one in patterns]
        self.pattern = pattern

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return group 1 of every match."""
        return [self._spans(document.text) for document in documents]

    def _spans(self, text: str) -> list[Span]:
        matches = (match for one in self._found for match in one.finditer(text))
        return byte_spans(text, sorted(match.span(1) for match in matches if match[1]))


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"Pattern: pattern {pattern!r} is no regular expression: {error}"
        ) from None
    if compiled.groups < 1:
        raise ConfigError(
            f"Pattern: pattern {pattern!r} has no group: put what is asked for in parentheses, "
            r"as in '=(\d)'"
        )
    return compiled
