"""Interface of pairwise judges: comparison of two answers to a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Shown(NamedTuple):
    """Two answers in the order in which a judge sees them.

    Attributes:
        prompt: the question.
        first: the answer in first place.
        second: the other one.
        answer: the task's right answer; only a simulated judge may look.
        rationale: comments on the two before the verdict.
    """

    prompt: str
    first: str
    second: str
    answer: str = ""
    rationale: str = ""


class PairwiseJudge(Protocol):
    """Judge that compares answers two by two."""

    def __call__(self, pairs: Sequence[Shown]) -> Sequence[float | None]:
        """Return for each pair the probability that the first is better; None for no verdict."""
        ...
