"""Judge by recorded verdicts from a file."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.data.records import Row, read_rows
from rlcomp.errors import DataError
from rlcomp.interfaces.judge import AnswerPair


class RecordedJudge(metaclass=Checked):
    """Judge by a file's probabilities for a prompt and two answers in a given order.

    The file is a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` with one row per verdict: ``prompt``,
    ``first``, ``second``, and ``probability`` in [0, 1] that the first is better, or null without a
    verdict. A pair that is not in the file has no verdict either.

    Args:
        path: path of the file.

    Raises:
        DataError: a row is no verdict or contradicts another; names file and line.
    """

    def __init__(self, *, path: NonEmptyText) -> None:
        self._verdicts: dict[tuple[str, str, str], float | None] = {}
        for row in read_rows(path, {*_TEXTS, "probability"}):
            shown, probability = _verdict(row)
            if self._verdicts.setdefault(shown, probability) != probability:
                raise DataError(
                    f"{row.place}: probability {probability} of a pair for which an earlier row "
                    f"says {self._verdicts[shown]}: leave one of them"
                )

    def __call__(self, pairs: Sequence[AnswerPair]) -> list[float | None]:
        """Return for each pair the recorded probability that the first is better."""
        return [self._verdicts.get((pair.prompt, pair.first, pair.second)) for pair in pairs]


_TEXTS = ("prompt", "first", "second")


def _verdict(row: Row) -> tuple[tuple[str, str, str], float | None]:
    prompt, first, second = (_text(row, name) for name in _TEXTS)
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
            "null where the judge could not tell"
        )
    return (prompt, first, second), float(probability)


def _text(row: Row, name: str) -> str:
    text = row.columns.get(name)
    if not isinstance(text, str):
        raise DataError(f"{row.place}: {name} is {str(text)[:40]}: must be a text")
    return text
