"""Regular-expression matches in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.data.positions import Span, Tokenised, byte_spans
from rlcomp.errors import ConfigError


class Pattern(metaclass=Checked):
    r"""Every place at which a pattern matches.

    Args:
        pattern: a regular expression whose group 1 is asked for, such as ``=(\d)``, or several.
            What they match without a character is passed over. ``^`` and ``$`` are those of the
            whole text; write ``(?m)`` in front for those of lines. Matches of one pattern do not
            overlap; groups of a look-ahead, ``(?=(\w\w))``, may, and those of two patterns.

    Raises:
        ConfigError: one is no regular expression or has no group, or there is none.
    """

    def __init__(self, *, pattern: NonEmptyText | Sequence[NonEmptyText]) -> None:
        given = [pattern] if isinstance(pattern, str) else list(pattern)
        if not given:
            raise ConfigError("Pattern: pattern is an empty list: give a regular expression")
        self._found = [_compiled(one) for one in given]
        self.pattern = pattern

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Group 1 of every match."""
        return [self._spans(document.text) for document in documents]

    def _spans(self, text: str) -> list[Span]:
        matches = (match for one in self._found for match in one.finditer(text))
        return byte_spans(text, sorted(match.span(1) for match in matches if match[1]))


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"Pattern: pattern {pattern!r} is no regular expression: {error}"
        ) from None
    if found.groups < 1:
        raise ConfigError(
            f"Pattern: pattern {pattern!r} has no group: put what is asked for in parentheses, "
            r"as in '=(\d)'"
        )
    return found
