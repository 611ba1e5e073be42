"""Regular-expression reward (format reward)."""

from __future__ import annotations

import re

from rlcomp.arguments import NonEmptyText, NonNegativeInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.pattern import bounded


class Regex(TextReward):
    r"""Reward 1 if a pattern matches in the response (and its group is the answer), else 0.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``regex``.

    Args:
        pattern: regular expression; its first match anywhere in the response counts. ``\A...\Z``
            requires the whole response.
        group: the compared group; 0 is the whole match.
        compare: whether the group must equal the answer, with white space around both ignored.

    Raises:
        ConfigError: the pattern is no regular expression or has no such group, or (when called) it
            takes more than five seconds of processor time.
    """

    name = "regex"

    def __init__(
        self, *, pattern: NonEmptyText, group: NonNegativeInt = 0, compare: bool = False
    ) -> None:
        super().__init__()
        self.pattern = pattern
        self.group = group
        self.compare = compare
        try:
            self._compiled = re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"Regex: pattern {pattern!r} is no regular expression: {error}"
            ) from None
        if group > self._compiled.groups:
            raise ConfigError(
                f"Regex: group is {group}, but pattern {pattern!r} has {self._compiled.groups}"
            )

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return 1 if the pattern matches, else 0."""
        with bounded(self.pattern, response):
            match = self._compiled.search(response)
        if match is None or not self.compare:
            return float(match is not None)
        text: str | None = match[self.group]
        return float(text is not None and text.strip() == answer.strip())
