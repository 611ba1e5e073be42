"""Scores of rewards: a number, named parts or None for each row, checked and summed."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Mapping, Sequence

import torch

from rlcomp.errors import ConfigError, DataError, nearest

Score = float | Mapping[str, float | None] | None

# Names of the metrics reward/<name> of every reward; a part or a logged metric needs another name.
_RESERVED_NAMES = ("mean", "correct", "invalid_fraction", "retried")


class Scores:
    """The parts of each row's score.

    Args:
        owner: the reward, for messages.
        name: name of the only part if scores are numbers.
        responses: the scored texts, for messages.
        scores: one score per row: a number, a mapping of named parts, or None.
        earlier: names of the parts in earlier batches.

    Attributes:
        batch_names: names of the parts in this batch.
        names: names of the parts in this and earlier batches.
        has_parts: True if scores are mappings of named parts; False if they are numbers, or if the
            only part is called ``name``.

    Raises:
        ConfigError: a score is neither a number nor a mapping, some rows have numbers and others
            mappings, or a part has the name of a metric.
        DataError: a score is infinite in float32.
    """

    def __init__(
        self,
        owner: str,
        name: str,
        responses: Sequence[str],
        scores: Sequence[object],
        *,
        earlier: Iterable[str] = (),
    ) -> None:
        self.owner = owner
        self.rows = [
            self._parts(name, f"{response!r:.62}", score)
            for response, score in zip(responses, scores, strict=True)
        ]
        self.batch_names = dict.fromkeys(part for row in self.rows for part in row)
        self.names = [*dict.fromkeys([*earlier, *self.batch_names])] or [name]
        self.has_parts = self.names != [name]
        numbers = not all(score is None or isinstance(score, Mapping) for score in scores)
        if self.has_parts and (numbers or (name in earlier and name not in self.batch_names)):
            others = ", ".join(part for part in self.names if part != name)
            raise ConfigError(
                f"{owner} scored some rows with a number and others with parts ({others}): return "
                "the same parts for every row, None for one that cannot be judged"
            )

    def _parts(self, name: str, what: str, score: object) -> dict[str, float | None]:
        if not isinstance(score, Mapping):
            checked = check_score(self.owner, what, score)
            return {} if checked is None else {name: checked}
        for part in score:
            check_metric_name(f"{self.owner} returned a part", part)
        return {
            str(part): check_score(self.owner, f"{what}, part {part!r},", value)
            for part, value in score.items()
        }

    def check_named(self, names: Iterable[str]) -> None:
        """Refuse names of parts that no row has had so far; without a judged row accept every name.

        Raises:
            ConfigError: no row of this or an earlier batch has a part of this name.
        """
        for name in names if self.batch_names else ():
            if name not in self.names:
                raise ConfigError(
                    f"{self.owner}: weights or correct_by names {name!r}, which is no part of its "
                    f"scores{nearest(name, self.names)}"
                )

    def check_one_decides(self, weights: Mapping[str, float]) -> None:
        """Refuse several weighted parts, whose sum would decide if an answer is right.

        A wrong answer with a good format and length could then count as right.

        Raises:
            ConfigError: several parts have a weight.
        """
        weighted = [name for name in self.batch_names if weights.get(name, 1.0)]
        if len(weighted) > 1:
            raise ConfigError(
                f"{self.owner} returned parts ({', '.join(weighted)}), but correct_by is null, so "
                "that any sum of at least 1 would count as right: set correct_by to the part that "
                "decides if an answer is right (its weight may be 0)"
            )

    def values(self, name: str) -> list[float | None]:
        """Return each row's value of a part; None if the row lacks the part."""
        return [row.get(name) for row in self.rows]

    def totals(self, weights: Mapping[str, float]) -> list[float | None]:
        """Return each row's weighted sum; None if the row lacks a part whose weight is not 0.

        Args:
            weights: weights by part; 1 for other parts.

        Raises:
            DataError: a sum is infinite in float32.
        """
        return [self._total(row, weights) for row in self.rows]

    def _total(self, row: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
        parts = {name: row.get(name) for name in self.names}
        total = 0.0
        for name, part in parts.items():
            weight = weights.get(name, 1.0)
            if part is None and weight:
                return None
            total += weight * (part or 0.0)
        return check_score(self.owner, f"parts {parts}", total)


def check_metric_name(what: str, name: object) -> None:
    """Refuse a name that belongs to a metric of every reward.

    Args:
        what: beginning of the message, ``NAME returned a part``.
        name: the name to check.

    Raises:
        ConfigError: the name is reserved.
    """
    if name in _RESERVED_NAMES or str(name).startswith("failed/"):
        raise ConfigError(f"{what} {name!r}, but reward/{name} is a metric of its own: rename it")


def _conversion_hint(score: object) -> str:
    """Return the end of a message that says how to convert a score to a number; or ""."""
    if isinstance(score, (tuple, list)) and len(score) and _number(score[0]) is not None:
        return "; return its first entry"
    if isinstance(score, str) and re.fullmatch(r"\s*-?\d*\.?\d+\s*", score[:30]):
        return "; convert the text by float(...)"
    return ""


def check_score(owner: str, what: str, score: object) -> float | None:
    """Return a score as a float that float32 can hold; None if it cannot be judged (None, NaN).

    Args:
        owner: the reward, for messages.
        what: the scored text, for messages.
        score: the score of that text.

    Raises:
        ConfigError: the score is not a number.
        DataError: the score is infinite in float32 (beyond 3.4e38).

    Examples:
        >>> check_score("Mine", "'4'", True), check_score("Mine", "''", float("nan"))
        (1.0, None)
    """
    if score is None:
        return None
    number = _number(score)
    if number is None:
        if inspect.iscoroutine(score):
            score.close()  # otherwise Python warns that it was never awaited
        raise ConfigError(
            f"{owner} scored {what} with {_short_repr(score)}, a {type(score).__name__}: must be "
            f"a number, or None where it cannot be judged{_conversion_hint(score)}"
        )
    if math.isinf(torch.tensor(number, dtype=torch.float32).item()):
        raise DataError(
            f"{owner} scored {what} with {_short_repr(score)}, which is infinite in float32: "
            "return a finite number, or None where it cannot be judged"
        )
    return None if math.isnan(number) else number


def _number(score: object) -> float | None:
    """Return a score as a float; None for other types, and for texts, which float() would read."""
    if isinstance(score, (str, bytes, bytearray)):
        return None
    try:
        return float(score)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):  # a tensor of several numbers
        return None


def _short_repr(score: object) -> str:
    try:
        return repr(score)[:60]
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"
