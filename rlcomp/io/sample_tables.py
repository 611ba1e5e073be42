"""Samples as tables: one a kind, without empty columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SampleTable:
    """Columns in the order in which samples brought them, and a row a sample."""

    columns: list[str]
    rows: list[list[object]]


def sample_tables(samples: Sequence[Mapping[str, object]]) -> dict[str, SampleTable]:
    """The samples of one step by kind: ``rollouts`` have tokens, ``answers`` only texts.

    ``problems`` have counts of answers; what has none of these is of the kind ``others``. A column
    in which no sample has anything is left out.

    Examples:
        >>> tables = sample_tables([{"prompt": "1+1=", "response": "2", "reward": None}])
        >>> tables["answers"]
        SampleTable(columns=['prompt', 'response'], rows=[['1+1=', '2']])
    """
    by_kind: dict[str, list[Mapping[str, object]]] = {}
    for sample in samples:
        by_kind.setdefault(_kind(sample), []).append(sample)
    return {kind: _table(rows) for kind, rows in by_kind.items()}


def _kind(sample: Mapping[str, object]) -> str:
    if "tokens" in sample:
        return "rollouts"
    if "problem" in sample:
        return "problems"
    return "answers" if "prompt" in sample else "others"


def _table(samples: Sequence[Mapping[str, object]]) -> SampleTable:
    known = dict.fromkeys(column for sample in samples for column in sample)
    columns = [name for name in known if any(not _empty(sample.get(name)) for sample in samples)]
    return SampleTable(columns, [[sample.get(name) for name in columns] for sample in samples])


def _empty(value: object) -> bool:
    return value is None or (isinstance(value, (list, tuple, dict, str)) and not value)
