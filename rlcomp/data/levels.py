"""Difficulty levels of examples: values of a column, or lengths of prompts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rlcomp.errors import ConfigError, nearest
from rlcomp.interfaces.task import Example

PROMPT_LENGTH = "prompt_length"
_MAX_LEVELS = 8  # more distinct numbers are cut into quarters
_MAX_NAME_LENGTH = 40  # characters of a level in a metric's name


def levels(examples: Sequence[Example], by: str) -> list[str]:
    """Return the difficulty level of each example, in the form used in metric names.

    Args:
        examples: the examples, at least one.
        by: a column with texts or numbers, or ``prompt_length``, in characters. Up to eight
            distinct values are a level each; more numbers are cut into four levels (``"12..40"``)
            of about the same size. Equal numbers are in the same level.

    Raises:
        ConfigError: an example lacks the column, a value is neither text nor number, or there are
            more than eight distinct texts.

    Examples:
        >>> levels([Example("1+1=", "2", "2"), Example("1+12=", "13", "13")], "prompt_length")
        ['4', '5']
    """
    values = [_value(example, by) for example in examples]
    distinct = set(values)
    if len(distinct) <= _MAX_LEVELS:
        return [re.sub(r"[^\w.+-]", "_", str(value))[:_MAX_NAME_LENGTH] for value in values]
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) < len(values):
        raise ConfigError(
            f"by is {by!r}, a column with {len(distinct)} different texts: levels of difficulty "
            f"must be at most {_MAX_LEVELS} texts, or numbers"
        )
    return _quartile_levels(numbers)


def levels_if_several(examples: Sequence[Example], by: str | None) -> list[str]:
    """Return the level of each example; empty texts without ``by`` or with a single level."""
    names = [] if by is None else levels(examples, by)
    return names if len({*names}) > 1 else ["" for _ in examples]


def level_masks(names: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
    """Yield all examples, then each level, as a prefix of metrics and a mask, bool ``[P]``.

    Examples:
        >>> [(prefix, mask.tolist()) for prefix, mask in level_masks(["4", "5"])]
        [('', [True, True]), ('4/', [True, False]), ('5/', [False, True])]
    """
    for level in dict.fromkeys(["", *names]):
        mask = torch.tensor([level in ("", name) for name in names])
        yield f"{level}/" if level else "", mask


def _value(example: Example, by: str) -> str | float:
    columns = example.columns
    if by == PROMPT_LENGTH and by not in columns:
        return len(example.prompt)
    value = columns.get(by)
    if isinstance(value, (str, int, float)):
        return value
    if value is None:
        known_columns = [PROMPT_LENGTH, *columns]
        raise ConfigError(
            f"by is {by!r}, a column that the example {example.prompt[:60]!r} lacks"
            f"{nearest(by, known_columns)}"
        )
    raise ConfigError(f"by is {by!r}, a column with {value!r:.60}: must be a text or a number")


def _quartile_levels(numbers: Sequence[float]) -> list[str]:
    ordered = sorted(numbers)
    cuts = [ordered[len(ordered) * part // 4] for part in (1, 2, 3)]
    quartiles = [bisect_right(cuts, number) for number in numbers]
    members: dict[int, list[float]] = {}
    for quartile, number in zip(quartiles, numbers, strict=True):
        members.setdefault(quartile, []).append(number)
    names = {quartile: f"{min(group):g}..{max(group):g}" for quartile, group in members.items()}
    return [names[quartile] for quartile in quartiles]
