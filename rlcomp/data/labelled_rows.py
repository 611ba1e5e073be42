"""Rows with labels of texts and steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.data.examples import demonstrations, prompt_batch
from rlcomp.data.records import Row
from rlcomp.errors import DataError
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example
from rlcomp.text.reasoning import StepTokens
from rlcomp.text.rows import demonstration_rows

# Column of an example: its labels by name.
COLUMN = "labels"


def labelled_example(
    row: Row, text_field: str, labels: Sequence[str], longest: int | None
) -> Example | None:
    """Return a row as an example with a column ``labels``; None if no label is known.

    Args:
        row: a row of the file.
        text_field: column of the text.
        labels: columns of the labels: 0, 1, true, false, a probability, or null if unknown.
        longest: maximum number of characters of the text; None: all.

    Raises:
        DataError: there is no text, or a label has another value; the message names file and line.
    """
    text = row.columns.get(text_field)
    if not isinstance(text, str) or not text.strip():
        raise DataError(
            f"{row.place}: column {text_field!r} is {text!r:.60}: must be a text that is not empty"
        )
    values = {name: _label(row, name) for name in labels}
    if all(value is None for value in values.values()):
        return None
    return Example(text[:longest], "", "", columns={COLUMN: values})


def _label(row: Row, name: str) -> float | None:
    value = row.columns.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise DataError(
            f"{row.place}: label {name!r} is {value!r:.60}: must be 0, 1 or a probability, null "
            "where unknown"
        )
    return float(value)


def label_rows(examples: Sequence[Example], labels: Sequence[str]) -> Tensor:
    """Return the labels of examples; NaN where unknown.

    Returns:
        Shape ``[N, K]``, float32.

    Raises:
        DataError: an example has no column ``labels``.
    """
    columns = [example.columns.get(COLUMN) for example in examples]
    for example, column in zip(examples, columns, strict=True):
        if not isinstance(column, dict):
            raise DataError(
                f"{example.source or repr(example.prompt[:40])}: an example has no column "
                f"{COLUMN!r}: set task=labelled_texts"
            )
    rows = [[column.get(name) for name in labels] for column in columns if isinstance(column, dict)]
    return torch.tensor([[math.nan if value is None else value for value in row] for row in rows])


# Columns of an example: consecutive parts of its demonstration, and the label of each, from 0 to 1
# or null.
STEPS, STEP_LABELS = "steps", "step_labels"


def labelled_steps(example: Example) -> tuple[list[str], list[float | None]]:
    """Return the steps of an answer, and the label of each; None for a step without one.

    Raises:
        DataError: the columns ``steps`` and ``step_labels`` are not lists of equal length with
            texts and labels, or the texts together are not the answer.
    """
    steps, labels = example.columns.get(STEPS), example.columns.get(STEP_LABELS)
    if (
        not isinstance(steps, (list, tuple))
        or not isinstance(labels, (list, tuple))
        or not len(steps) == len(labels) > 0
        or not all(isinstance(step, str) and step for step in steps)
    ):
        raise DataError(
            f"the example {example.prompt[:60]!r} has steps {steps!r:.60} with labels "
            f"{labels!r:.60}: must be lists of equal length; use task=step_labels "
            "task.path=FILE or task=sorting_graded"
        )
    for label in labels:
        if label is not None and not (isinstance(label, (int, float)) and 0 <= label <= 1):
            raise DataError(
                f"the example {example.prompt[:60]!r} has a step labelled {label!r:.60}: must be "
                "true, false, a probability, or null for none"
            )
    if "".join(steps) != example.demonstration:
        raise DataError(
            f"the example {example.prompt[:60]!r} has steps that are not its answer, "
            f"{example.demonstration[:60]!r}"
        )
    return list(steps), [None if label is None else float(label) for label in labels]


def step_rows(
    tokenizer: PreTrainedTokenizerBase, prompt: PromptFormat, examples: Sequence[Example]
) -> TensorDict:
    """Return rows of answers with the label of each step on the token that completes it.

    Returns:
        ``tokens``, ``attention_mask``, ``response_mask``, ``step_end`` (of labelled steps) and
        ``step_label`` (0 elsewhere) ``[B, T]``, and the prompt's keys. If one token completes
        several steps, the lowest label counts.

    Raises:
        DataError: an example has no valid columns ``steps`` and ``step_labels``.
    """
    answers = demonstrations(prompt, list(examples))
    rows = demonstration_rows(tokenizer, answers)
    step_tokens = StepTokens(tokenizer)
    label = torch.ones(rows["tokens"].shape)  # the highest label: the lowest of several counts
    ends = torch.zeros(rows["tokens"].shape, dtype=torch.bool)
    for row, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        steps, labels = labelled_steps(example)
        positions = [position for position, trained in enumerate(answer.trained) if trained]
        ids = [answer.ids[position] for position in positions]
        for count, value in zip(
            step_tokens.counts(ids, example.demonstration, steps), labels, strict=True
        ):
            if value is not None:
                position = positions[count - 1]
                label[row, position] = min(float(label[row, position]), value)
                ends[row, position] = True
    rows["step_end"], rows["step_label"] = ends, torch.where(ends, label, 0.0)
    return rows.update(prompt_batch([*examples]))
