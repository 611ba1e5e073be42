"""Interface of judges of a prediction against a reference text, and of their reasons."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tensordict import TensorDict

from rlcomp.batch import encode_texts
from rlcomp.errors import RlcompWarning
from rlcomp.seed import node_path


class Judge(Protocol):
    """Judge of the agreement between a prediction and a reference text."""

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the score in [0, 1]; None if the pair cannot be judged."""
        ...


@runtime_checkable
class JudgesMany(Protocol):
    """Interface of judges that score several pairs at once faster than one by one."""

    def judge_all(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float | None]:
        """Score each prediction with its reference."""
        ...


def judge_all(judge: Judge, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
    """Score each prediction with its reference, all at once if the judge can.

    Examples:
        >>> judge_all(lambda prediction, reference: float(prediction == reference), [("a", "a")])
        [1.0]
    """
    if isinstance(judge, JudgesMany):
        return list(judge.judge_all(pairs))
    return [judge(prediction, reference) for prediction, reference in pairs]


class NoVerdict:
    """Reason of a judge for a missing verdict: the first one, given once as a warning.

    Args:
        judge: name of the judge's class, for messages. The judge's constructor makes this object,
            so that messages have the judge's config path as well.

    Attributes:
        path: config path of the judge and a dot, for remedies; empty outside of a config.
        reason: with the judge's name; empty if every question had a verdict.
    """

    def __init__(self, judge: str) -> None:
        path = node_path()
        self.path = f"{path}." if path else ""
        self.judge = f"{path} ({judge})" if path else judge
        self.reason = ""

    def tell(self, number: int, questions: int, reason: str) -> None:
        """Warn once that a number of questions have no verdict."""
        if not self.reason:
            self.reason = f"{self.judge}: {reason}"
            message = f"{self.judge}: {number} of {questions} questions have no verdict: {reason}"
            warnings.warn(message, RlcompWarning, stacklevel=3)


@runtime_checkable
class GivesReasons(Protocol):
    """Interface of judges that give a reason for a missing verdict."""

    no_verdict: NoVerdict


def write_reasons(batch: TensorDict, judge: object) -> TensorDict:
    """Write the judge's reason as ``invalid_reason`` ``[B, W]`` of rows without a valid reward."""
    reason = judge.no_verdict.reason if isinstance(judge, GivesReasons) else ""
    reason = (
        reason
        or f"its judge, {getattr(judge, '__qualname__', type(judge).__name__)}, gave no verdict"
    )
    reasons = ["" if valid else reason for valid in batch["reward_valid"].tolist()]
    batch["invalid_reason"] = encode_texts(reasons).to(batch["reward_valid"].device)
    return batch
