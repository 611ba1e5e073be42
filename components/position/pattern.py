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
        pattern: a regular expression whose group 1 is asked for, such as ``=(\d)``. What it matches
            without a character is passed over. ``^`` and ``$`` are those of the whole text; write
            ``(?m)`` in front for those of lines.

    Raises:
        ConfigError: it is no regular expression or has no group.
    """

    def __init__(self, *, pattern: NonEmptyText) -> None:
        try:
            self._found = re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"Pattern: pattern {pattern!r} is no regular expression: {error}"
            ) from None
        if self._found.groups < 1:
            raise ConfigError(
                f"Pattern: pattern {pattern!r} has no group: put what is asked for in parentheses, "
                r"as in '=(\d)'"
            )
        self.pattern = pattern

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Group 1 of every match."""
        return [self._spans(document.text) for document in documents]

    def _spans(self, text: str) -> list[Span]:
        places = [match.span(1) for match in self._found.finditer(text) if match[1]]
        return byte_spans(text, places)
