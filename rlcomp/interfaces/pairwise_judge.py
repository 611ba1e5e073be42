"""Interface of pairwise judges: which of two answers to a prompt is better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Shown(NamedTuple):
    """Two answers in the order in which a judge sees them.

    Attributes:
        prompt: what was asked.
        first: the answer that is shown first.
        second: the other one.
        answer: what the task knows to be right; only a simulated judge may look.
        rationale: what was said of the two before the verdict.
    """

    prompt: str
    first: str
    second: str
    answer: str = ""
    rationale: str = ""


class PairwiseJudge(Protocol):
    """Compares answers two by two."""

    def __call__(self, pairs: Sequence[Shown]) -> Sequence[float | None]:
        """For each pair the probability that the first is better; None if it cannot be told."""
        ...
