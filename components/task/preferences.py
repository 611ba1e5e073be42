"""Preferences from a file: pairs, rankings, ratings, votes and single labels."""

from __future__ import annotations

import warnings
from typing import Literal

from rlcomp.arguments import Checked, Fraction, NonEmptyText
from rlcomp.data.preference_rows import Dialogues, Ratings, preference_examples
from rlcomp.data.records import read_rows
from rlcomp.errors import DataError, RlcompWarning
from rlcomp.interfaces.task import Example


class PreferenceTask(metaclass=Checked):
    """Task of preferences from a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file.

    The file is validated on construction. For the kinds of rows see
    :func:`rlcomp.data.preference_rows.preference_examples`: ``chosen`` and ``rejected`` (texts,
    messages or dialogues of HH), ``responses`` with ``ranking`` or ``ratings``, ``output_1``,
    ``output_2`` with ``preference``, ``response_a``, ``response_b`` with ``winner``,
    ``completion`` with ``label`` or ``rating``. The columns ``weight``, ``label_noise`` and
    ``annotator`` give the weight of a label.

    Args:
        path: the file.
        prompt_field: column of the prompt, a text or messages.
        dialogues: dialogues of HH become a ``text`` or ``messages`` (for ``prompt=chat``).
        held_out: share of the prompts that only evaluators see.
        ties: whether pairs without a preference are left out or kept for ``loss=davidson``; other
            losses read them as a label that is wrong with probability 1/2.
        ratings: ``responses`` with ``ratings`` or a ``ranking`` give all ``pairs`` that differ, a
            rated answer ``each`` (``sampler@pairs=rated``), or one ``ranking`` of all
            (``sampler@pairs=rankings``).

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
        ties: Literal["leave_out", "keep"] = "leave_out",
        ratings: Ratings = "pairs",
    ) -> None:
        self.path = path
        self.prompt_field = prompt_field
        self.dialogues = dialogues
        self.held_out = held_out
        self.ties = ties
        self.ratings = ratings
        keeps_ties = ties == "keep"
        groups = [
            preference_examples(row, prompt_field, dialogues, ties=keeps_ties, ratings=ratings)
            for row in read_rows(path)
        ]
        self.examples = [example for examples in groups for example in examples]
        left_out = sum(not examples for examples in groups)
        if not self.examples:
            raise DataError(f"{path!r}: all of its {left_out} rows are ties: nothing is preferred")
        if left_out:
            warnings.warn(
                f"{path}: rows whose answers are all alike, left out: {left_out} of {len(groups)}; "
                "task.ties=keep keeps them for loss=davidson",
                RlcompWarning,
                stacklevel=2,
            )

    def __len__(self) -> int:
        """Return the number of pairs or labels, training and held out."""
        return len(self.examples)

    def example(self, index: int) -> Example:
        """Return the example of a pair or a label."""
        return self.examples[index]
