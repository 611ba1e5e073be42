"""Interface of judges: compare a prediction with a reference text, or say why they cannot."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tensordict import TensorDict

from rlcomp.batch import encode_texts
from rlcomp.errors import RlcompWarning
from rlcomp.seed import node_path


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


class NoVerdict:
    """Why a judge gave no verdict: the first reason, with its name, as a warning.

    Args:
        judge: its class, for messages; made in its constructor, it knows its config path as well.

    Attributes:
        path: its config path and a dot, for remedies; empty outside of a config.
        reason: with its name; empty where every question had a verdict.
    """

    def __init__(self, judge: str) -> None:
        path = node_path()
        self.path = f"{path}." if path else ""
        self.judge = f"{path} ({judge})" if path else judge
        self.reason = ""

    def tell(self, number: int, questions: int, why: str) -> None:
        """Warn once that a number of questions have no verdict."""
        if not self.reason:
            self.reason = f"{self.judge}: {why}"
            told = f"{self.judge}: {number} of {questions} questions have no verdict: {why}"
            warnings.warn(told, RlcompWarning, stacklevel=3)


@runtime_checkable
class GivesReasons(Protocol):
    """Interface of judges that say why they gave no verdict."""

    no_verdict: NoVerdict


def write_reasons(batch: TensorDict, judge: object) -> TensorDict:
    """Write ``invalid_reason`` ``[B, W]``: the judge's, in rows without a valid reward."""
    why = judge.no_verdict.reason if isinstance(judge, GivesReasons) else ""
    why = (
        why or f"its judge, {getattr(judge, '__qualname__', type(judge).__name__)}, gave no verdict"
    )
    reasons = ["" if valid else why for valid in batch["reward_valid"].tolist()]
    batch["invalid_reason"] = encode_texts(reasons).to(batch["reward_valid"].device)
    return batch
