"""Judges that repeat or combine verdicts: a file and an ensemble."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import torch

from rlcomp.arguments import Checked, MinLen, NonEmptyText, PositiveInt
from rlcomp.data.records import Row, read_rows
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.judge import AnswerPair, PairwiseJudge
from rlcomp.metrics import record

_TEXTS = ("prompt", "first", "second")


class RecordedJudge(metaclass=Checked):
    """Judge by a file of probabilities for a prompt and two answers in their order.

    The file is a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` with one row per verdict: ``prompt``,
    ``first``, ``second``, and ``probability`` in [0, 1] that the first is better, or null without a
    verdict. A pair outside the file has no verdict.

    Args:
        path: path of the file.

    Raises:
        DataError: a row is no verdict or contradicts another; the message names file and line.
    """

    def __init__(self, *, path: NonEmptyText) -> None:
        self._verdicts: dict[tuple[str, str, str], float | None] = {}
        for row in read_rows(path, {*_TEXTS, "probability"}):
            pair, probability = _verdict(row)
            if self._verdicts.setdefault(pair, probability) != probability:
                raise DataError(
                    f"{row.place}: probability {probability} of a pair, but an earlier row has "
                    f"{self._verdicts[pair]}: delete one of them"
                )

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the recorded probability that the first is better."""
        return [self._verdicts.get((pair.prompt, pair.first, pair.second)) for pair in pairs]


def _verdict(row: Row) -> tuple[tuple[str, str, str], float | None]:
    """Return the prompt and the answers of a row, and its probability."""
    prompt, first, second = (_text(row, name) for name in _TEXTS)
    # A missing column is NaN, which is refused below; null is a pair without a verdict.
    probability = row.columns.get("probability", math.nan)
    if probability is None:
        return (prompt, first, second), None
    if (
        isinstance(probability, bool)
        or not isinstance(probability, int | float)
        or not 0 <= probability <= 1
    ):
        raise DataError(
            f"{row.place}: probability is {str(probability)[:40]}: must be a number in [0, 1], or "
            "null without a verdict"
        )
    return (prompt, first, second), float(probability)


def _text(row: Row, name: str) -> str:
    text = row.columns.get(name)
    if not isinstance(text, str):
        raise DataError(f"{row.place}: {name} is {str(text)[:40]}: must be a text")
    return text


class JudgeEnsemble(metaclass=Checked):
    """Ensemble of judges, ``p = mean_j p_j`` over the judges with a verdict.

    Records ``judges/disagreement``, the mean standard deviation (with Bessel's correction) of a
    pair's probabilities, over pairs with two or more verdicts.

    Args:
        judges: the judges by name, at least one.
        least: least number of verdicts of a pair; with fewer it has no result.

    Raises:
        ConfigError: there are fewer judges than ``least``.

    Examples:
        >>> one, other = (lambda pairs, p=p: [p] * len(pairs) for p in (0.5, 1.0))
        >>> JudgeEnsemble(judges={"one": one, "other": other})([AnswerPair("", "a", "b")])
        [0.75]
    """

    def __init__(
        self, *, judges: Annotated[dict[str, PairwiseJudge], MinLen(1)], least: PositiveInt = 1
    ) -> None:
        if least > len(judges):
            raise ConfigError(
                f"JudgeEnsemble: least is {least}, and there are {len(judges)} judges: lower least"
            )
        self.judges = dict(judges)
        self.least = least

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the mean probability that the first is better."""
        columns = zip(*(judge(pairs) for judge in self.judges.values()), strict=True)
        groups = [[p for p in verdicts if p is not None] for verdicts in columns]
        spreads = [
            float(torch.tensor(group, dtype=torch.float64).std())
            for group in groups
            if len(group) > 1
        ]
        record("judges/disagreement", torch.tensor(spreads))
        return [sum(group) / len(group) if len(group) >= self.least else None for group in groups]
