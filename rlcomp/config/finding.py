"""A finding of a check: what is wrong with a config, where, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

Level = Literal["refuse", "warn"]

_MESSAGE = re.compile(r"([\w./@]*)(.*?)(; .*)?", re.DOTALL)


class Finding(NamedTuple):
    """A mistake in a config, or a setting that is probably one.

    Attributes:
        level: ``refuse`` the run, or ``warn`` when it begins.
        path: path of the node or setting; may be empty.
        value: rest of the message: the value and its fault.
        remedy: setting to change; may be empty.
    """

    level: Level
    path: str
    value: str
    remedy: str

    @classmethod
    def parse(cls, level: Level, message: str) -> Finding:
        """Parse a message ``PATH is VALUE: fault; remedy``.

        Examples:
            >>> Finding.parse("refuse", "learner.lr is 'x': must be a number; set learner.lr=1e-4")
            Finding(level='refuse', path='learner.lr', value=" is 'x': must be a number", \
remedy='set learner.lr=1e-4')
        """
        parts = _MESSAGE.fullmatch(message)
        assert parts is not None  # the pattern matches every text
        return cls(level, parts[1], parts[2], (parts[3] or "").removeprefix("; "))

    def __str__(self) -> str:
        """Return the message."""
        return f"{self.path}{self.value}" + (f"; {self.remedy}" if self.remedy else "")


def refuse(message: str) -> Finding:
    """Return a finding that refuses the run."""
    return Finding.parse("refuse", message)


def warn(message: str) -> Finding:
    """Return a finding that is a warning."""
    return Finding.parse("warn", message)


def messages(findings: Iterable[Finding]) -> list[str]:
    """Return the messages of findings."""
    return [str(finding) for finding in findings]
