"""Tasks of labels from a file: preferences, and labels of texts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated, Literal

from rlcomp.arguments import Checked, Fraction, MinLen, NonEmptyText, PositiveInt
from rlcomp.data.labelled_rows import COLUMN, labelled_example
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
    ``annotator`` give the weight of a label and the probability that it is wrong. A row of
    which every pair is a tie is left out with a warning, unless ``ties: keep``.

    Args:
        path: the file.
        prompt_field: column of the prompt, a text or messages.
        dialogues: dialogues of HH become a ``text`` or ``messages`` (for ``prompt=chat``).
        held_out: share of the prompts that only evaluators see.
        ties: whether pairs without a preference are left out or kept for ``loss=davidson``; other
            losses read them as a label that is wrong with probability 1/2.
        ratings: examples of a row of ``responses`` with ``ratings`` or a ``ranking``. ``pairs``:
            every pair of responses that differ in rating. ``each``: every response with its rating
            (``sampler@pairs=rated``). ``ranking``: one ranking of all responses
            (``sampler@pairs=rankings``).

    Raises:
        DataError: the file is missing, empty or malformed, or a row does not fit; the message names
            file and line. Or all rows are left out.
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


class LabelledTexts(metaclass=Checked):
    """Task of texts with several labels, from a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file.

    A label is 0, 1 or a probability; null or absent if unknown. A row without a known label is left
    out, with a warning. The prompt of an example is the text, and its answer is empty. Its column
    ``labels`` is a dict from each label to its value; None if unknown.

    Args:
        path: the file.
        labels: columns that are labels, in the order of a classifier's outputs.
        text_field: column of the text.
        longest: maximum number of characters of a text, from its beginning; None for all.
        held_out: share of the texts that only evaluators see.

    Raises:
        DataError: the file is missing, empty or malformed, a row has no text or a bad label, or a
            label is known in no row; the message names file and line.
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
