"""Texts from a file, with labels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated

from rlcomp.arguments import Checked, Fraction, MinLen, NonEmptyText, PositiveInt
from rlcomp.data.labelled_rows import COLUMN, labelled_example
from rlcomp.data.records import read_rows
from rlcomp.errors import DataError, RlcompWarning
from rlcomp.interfaces.task import Example


class LabelledTexts(metaclass=Checked):
    """Task of texts with several labels, from a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file.

    A label is 0, 1 or a probability; null or absent if unknown. A row without a known label is left
    out, with a warning. The prompt of an example is the text. It has no answer, and a column
    ``labels`` with a value for each label.

    Args:
        path: the file.
        labels: columns that are labels, in the order of a classifier's outputs.
        text_field: column of the text.
        longest: most characters of a text, from its begin; None for all.
        held_out: share of the texts that only evaluators see.

    Raises:
        DataError: the file is missing, empty or malformed, a row has no text or a bad label, or a
            label is known in no row; names file and line.
    """

    def __init__(
        self,
        *,
        path: NonEmptyText,
        labels: Annotated[Sequence[NonEmptyText], MinLen(1)],
        text_field: NonEmptyText = "prompt",
        longest: PositiveInt | None = None,
        held_out: Fraction = 0.2,
    ) -> None:
        self.path = path
        self.labels = list(labels)
        self.text_field = text_field
        self.longest = longest
        self.held_out = held_out
        rows = read_rows(path, {text_field, *labels})
        examples = [labelled_example(row, text_field, self.labels, longest) for row in rows]
        self.examples = [example for example in examples if example is not None]
        for name in self.labels:
            if all(self._label(example, name) is None for example in self.examples):
                raise DataError(f"{path!r}: no row has the label {name!r}: name one of its columns")
        if unknown := len(examples) - len(self.examples):
            warnings.warn(
                f"{path}: rows without any of these labels, left out: {unknown} of {len(examples)}",
                RlcompWarning,
                stacklevel=2,
            )

    def __len__(self) -> int:
        """Return the number of texts, training and held out."""
        return len(self.examples)

    def example(self, index: int) -> Example:
        """Return the example of a text."""
        return self.examples[index]

    def _label(self, example: Example, name: str) -> object:
        labels = example.columns[COLUMN]
        assert isinstance(labels, dict)  # labelled_example writes a dict
        return labels[name]
