"""Task with the rows of a data set as examples."""

from __future__ import annotations

from collections.abc import Iterable

from rlcomp.arguments import Checked
from rlcomp.data.column_mapping import Fields
from rlcomp.data.records import Row
from rlcomp.interfaces.task import Example


class RecordTask(metaclass=Checked):
    """Task with the rows of a data set as examples, all read on construction.

    Args:
        fields: the columns that make an example.
        rows: the rows, one for each example.
        held_out: share of the prompts, as worded, that only evaluators see.
    """

    def __init__(self, fields: Fields, rows: Iterable[Row], held_out: float) -> None:
        self.fields = fields
        self.held_out = held_out
        self.examples = fields.examples(rows)

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return len(self.examples)

    def example(self, index: int) -> Example:
        """Return the example of one row."""
        return self.examples[index]
