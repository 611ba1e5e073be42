"""Rows of answers with labelled steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.data.examples import demonstrations, prompt_batch
from rlcomp.errors import DataError
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Example
from rlcomp.text.rows import demonstration_rows
from rlcomp.text.steps import StepTokens

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
            f"{labels!r:.60}: must be lists of as many texts and labels; use task=step_labels "
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
    return list(steps), [None if one is None else float(one) for one in labels]


def step_rows(
    tokenizer: PreTrainedTokenizerBase, prompt: Prompt, examples: Sequence[Example]
) -> TensorDict:
    """Return rows of answers with the label of each step on the token that completes it.

    Args:
        tokenizer: the policy's.
        prompt: encodes them as tokens.
        examples: with columns ``steps`` and ``step_labels``.

    Returns:
        ``tokens``, ``attention_mask``, ``response_mask``, ``step_end`` (of labelled steps) and
        ``step_label`` ``[B, T]``, and the prompt's keys. If one token completes several steps, the
        lowest label counts.

    Raises:
        DataError: an example has no such columns.
    """
    answers = demonstrations(prompt, list(examples))
    rows = demonstration_rows(tokenizer, answers)
    step_tokens = StepTokens(tokenizer)
    label = torch.ones(rows["tokens"].shape)
    ends = torch.zeros(rows["tokens"].shape, dtype=torch.bool)
    for row, (example, one) in enumerate(zip(examples, answers, strict=True)):
        steps, labels = labelled_steps(example)
        places = [place for place, trained in enumerate(one.trained) if trained]
        counts = step_tokens.counts([one.ids[n] for n in places], example.demonstration, steps)
        for count, step in zip(counts, labels, strict=True):
            if step is not None:
                place = places[count - 1]
                label[row, place] = min(float(label[row, place]), step)
                ends[row, place] = True
    rows["step_end"], rows["step_label"] = ends, torch.where(ends, label, 0.0)
    return rows.update(prompt_batch([*examples]))
