"""Recorded judge: verdicts that stand in a file."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.data.records import Row, read_rows
from rlcomp.errors import DataError
from rlcomp.interfaces.pairwise_judge import Shown


class Recorded(metaclass=Checked):
    """Recorded verdicts: the probability of a file for a prompt and two answers, in this order.

    The file is a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` with a row a verdict: ``prompt``,
    ``first``, ``second``, and ``probability`` in [0, 1] that the first is better, or null where the
    judge could not tell. What is not in it cannot be told either.

    Args:
        path: of the file.

    Raises:
        DataError: names file and line of a row that is no verdict, or that contradicts another.
    """

    def __init__(self, *, path: NonEmptyText) -> None:
        self._verdicts: dict[tuple[str, str, str], float | None] = {}
        for row in read_rows(path, {*_TEXTS, "probability"}):
            shown, told = _verdict(row)
            if self._verdicts.setdefault(shown, told) != told:
                raise DataError(
                    f"{row.place}: probability {told} of a pair for which an earlier row says "
                    f"{self._verdicts[shown]}: leave one of them"
                )

    def __call__(self, pairs: Sequence[Shown]) -> list[float | None]:
        """For each pair the recorded probability that the first is better."""
        return [self._verdicts.get((pair.prompt, pair.first, pair.second)) for pair in pairs]


_TEXTS = ("prompt", "first", "second")


def _verdict(row: Row) -> tuple[tuple[str, str, str], float | None]:
    prompt, first, second = (_text(row, name) for name in _TEXTS)
    told = row.columns.get("probability", math.nan)
    if told is None:
        return (prompt, first, second), None
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told <= 1:
        raise DataError(
            f"{row.place}: probability is {str(told)[:40]}: must be a number in [0, 1], or null "
            "where the judge could not tell"
        )
    return (prompt, first, second), float(told)


def _text(row: Row, name: str) -> str:
    text = row.columns.get(name)
    if not isinstance(text, str):
        raise DataError(f"{row.place}: {name} is {str(text)[:40]}: must be a text")
    return text
