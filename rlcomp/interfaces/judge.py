"""Interface of judges: compare a prediction with a reference text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


class Judge(Protocol):
    """Scores the agreement of a prediction with a reference text."""

    def __call__(self, prediction: str, reference: str) -> float | None:
        """The score in [0, 1]; None if it cannot be judged."""
        ...


@runtime_checkable
class JudgesMany(Protocol):
    """Interface of judges that score several pairs at once faster than one by one."""

    def judge_all(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float | None]:
        """The score of each prediction with its reference."""
        ...


def judge_all(judge: Judge, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
    """The score of each prediction with its reference, all at once where the judge can.

    Examples:
        >>> judge_all(lambda prediction, reference: float(prediction == reference), [("a", "a")])
        [1.0]
    """
    if isinstance(judge, JudgesMany):
        return list(judge.judge_all(pairs))
    return [judge(prediction, reference) for prediction, reference in pairs]
