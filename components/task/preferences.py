"""Preferences from a file: pairs, rankings, ratings, votes and single labels."""

from __future__ import annotations

import warnings

from rlcomp.arguments import Checked, Fraction, NonEmptyText
from rlcomp.data.preference_rows import Dialogues, preference_examples
from rlcomp.data.records import read_rows
from rlcomp.errors import DataError, RlcompWarning
from rlcomp.interfaces.task import Example


class Preferences(metaclass=Checked):
    """Preferences of a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file, validated on construction.

    A row is one of the kinds of :func:`rlcomp.data.preference_rows.preference_examples`: ``chosen``
    and ``rejected`` (texts, messages or dialogues of HH), ``responses`` with ``ranking`` or
    ``ratings``, ``output_1``, ``output_2`` with ``preference``, ``completion`` with ``label``.
    Columns ``weight``, ``label_noise`` and ``annotator`` say how much a label counts.

    Args:
        path: the file.
        prompt_field: column of the prompt, a text or messages.
        dialogues: dialogues of HH become a ``text`` or ``messages`` (for ``prompt=chat``).
        held_out: share of the prompts that only evaluators see.

    Raises:
        DataError: the file is missing, empty or malformed, or a row holds no preference; names file
            and line.
    """

    def __init__(
        self,
        *,
        path: NonEmptyText,
        prompt_field: NonEmptyText = "prompt",
        dialogues: Dialogues = "text",
        held_out: Fraction = 0.1,
    ) -> None:
        self.path = path
        self.prompt_field = prompt_field
        self.dialogues = dialogues
        self.held_out = held_out
        found = [preference_examples(row, prompt_field, dialogues) for row in read_rows(path)]
        self.examples = [example for examples in found for example in examples]
        ties = sum(not examples for examples in found)
        if not self.examples:
            raise DataError(f"{path!r}: all of its {ties} rows are ties: nothing is preferred")
        if ties:
            warnings.warn(
                f"{path}: rows whose answers are all alike, left out: {ties} of {len(found)}",
                RlcompWarning,
                stacklevel=2,
            )

    def __len__(self) -> int:
        """How many pairs or labels there are, training and held out."""
        return len(self.examples)

    def example(self, index: int) -> Example:
        """One pair or label."""
        return self.examples[index]
