"""Solutions in steps."""

from __future__ import annotations

from itertools import takewhile
from typing import Literal

from rlcomp.arguments import Checked, Fraction, NonEmptyText
from rlcomp.columns import CONVERSATION
from rlcomp.data.pairs import REJECTED, STEP
from rlcomp.data.records import Row, read_rows
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example, Task

Neutral = Literal["right", "wrong", "leave_out"]


class StepLabelTask(metaclass=Checked):
    """Task of solutions with step labels, from a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file.

    A row has a prompt, ``completions`` (the steps in order), and as many ``labels``. A label is
    true, false, null (unknown), or a number: a probability or, with ``scale: signed``, 1 (right), 0
    (neutral) or -1 (wrong). The answer consists of the steps, separated by ``separator``. The
    outcome is the column ``correct`` (true or false); without it the solution is right if all known
    labels are above 1/2.

    Args:
        path: the file.
        prompt_field: column of the prompt, a text.
        separator: text after each step except the last.
        scale: scale of the labels.
        neutral: meaning of a 0 of ``signed``.
        held_out: share of the prompts that only evaluators see.

    Raises:
        DataError: the file is missing, empty or malformed, or a row holds no labelled steps; the
            message names file and line.

    Source:
        Lightman et al. 2023 (PRM800K), arXiv:2305.20050, for three kinds of labels; Wang et al.
        2023 (Math-Shepherd), arXiv:2312.08935, for probabilities.
    """

    def __init__(
        self,
        *,
        path: NonEmptyText,
        prompt_field: NonEmptyText = "prompt",
        separator: str = "\n",
        scale: Literal["probability", "signed"] = "probability",
        neutral: Neutral = "right",
        held_out: Fraction = 0.1,
    ) -> None:
        self.path = path
        self.prompt_field = prompt_field
        self.separator = separator
        self.scale = scale
        self.neutral = neutral
        self.held_out = held_out
        self.examples = [self._example(row) for row in read_rows(path)]

    def __len__(self) -> int:
        """Return the number of solutions, training and held out."""
        return len(self.examples)

    def example(self, index: int) -> Example:
        """Return the example of a solution."""
        return self.examples[index]

    def _example(self, row: Row) -> Example:
        row_columns = row.columns
        prompt = row_columns.get(self.prompt_field)
        steps, labels = row_columns.get("completions"), row_columns.get("labels")
        if not isinstance(prompt, str) or not prompt:
            raise DataError(f"{row.place}: column {self.prompt_field!r} is {prompt!r:.60}: no text")
        if (
            not isinstance(steps, (list, tuple))
            or not isinstance(labels, (list, tuple))
            or not len(steps) == len(labels) > 0
        ):
            raise DataError(
                f"{row.place}: columns 'completions' and 'labels' are {steps!r:.40} and "
                f"{labels!r:.40}: must be lists of as many steps and labels"
            )
        if not all(isinstance(step, str) and step for step in steps):
            raise DataError(f"{row.place}: column 'completions' holds a step that is not a text")
        # The separator belongs to the step before it; the last step has none.
        texts = [f"{step}{self.separator}" for step in steps[:-1]] + [steps[-1]]
        values = [self._label(row, label) for label in labels]
        desirable = row_columns.get(
            "correct", all(label is None or label > 0.5 for label in values)
        )
        if not isinstance(desirable, bool):
            raise DataError(
                f"{row.place}: column 'correct' is {desirable!r:.60}: must be true or false"
            )
        columns = {"steps": texts, "step_labels": values, "desirable": desirable}
        return Example(prompt, "".join(texts), "".join(texts), columns=columns)

    def _label(self, row: Row, label: object) -> float | None:
        if label is None:
            return None
        if isinstance(label, bool):
            return float(label)
        signed = self.scale == "signed"
        if isinstance(label, (int, float)):
            if signed and label in (-1, 0, 1):
                neutral = {"right": 1.0, "wrong": 0.0, "leave_out": None}[self.neutral]
                return neutral if label == 0 else float(label > 0)
            if not signed and 0 <= label <= 1:
                return float(label)
        scale = "-1, 0 or 1" if signed else "from 0 to 1 (or task.scale=signed)"
        raise DataError(
            f"{row.place}: column 'labels' holds {label!r:.60}: must be true, false, null, or "
            f"{scale}"
        )


class StepPairs(metaclass=Checked):
    r"""Task of pairs of single steps (Step-DPO) from pairs of solutions.

    The prompt is followed by the steps that both solutions share. The chosen and the rejected
    answer are the step in which they first differ, without EOS, so that only the tokens of that
    step are trained. Prompt and step are tokenised separately.

    Args:
        task: the task of pairs of solutions (texts): demonstration and column ``rejected``.
        separator: text at the end of a step, such as ``"\n"``; empty: every character is a step.

    Raises:
        DataError: an example is no pair of texts, or one solution is the beginning of the other.

    Source:
        Lai et al. 2024 (Step-DPO), arXiv:2406.18629, eq. 2.
    """

    def __init__(self, *, task: Task, separator: str = "\n") -> None:
        self.task = task
        self.separator = separator
        self.held_out = task.held_out

    def __len__(self) -> int:
        """Return the number of pairs, training and held out."""
        return len(self.task)

    def example(self, index: int) -> Example:
        """Return the step pair of a pair of solutions, with the same split."""
        whole = self.task.example(index)
        rejected = whole.columns.get(REJECTED)
        if not isinstance(rejected, str) or CONVERSATION in whole.columns:
            raise DataError(
                f"the example {whole.prompt[:60]!r} is no pair of texts: step pairs need a text "
                "and a column 'rejected' with another, and prompt=text"
            )
        right_steps = steps_of(whole.demonstration, self.separator)
        wrong_steps = steps_of(rejected, self.separator)
        shared = _count_shared_steps(right_steps, wrong_steps)
        if shared == min(len(right_steps), len(wrong_steps)):
            raise DataError(
                f"the example {whole.prompt[:60]!r} has two solutions, one the beginning of the "
                f"other, with steps that end in {self.separator!r}: they differ in no step; remove "
                "the example, or set separator"
            )
        return Example(
            prompt=whole.prompt + "".join(right_steps[:shared]),
            answer=whole.answer,
            demonstration=right_steps[shared],
            source=whole.held_out_by,
            columns={**whole.columns, REJECTED: wrong_steps[shared], STEP: True},
        )


def steps_of(text: str, separator: str) -> list[str]:
    r"""Return the steps of a solution, each with its separator.

    Examples:
        >>> steps_of("a\nb\n\nc", "\n")
        ['a\n', 'b\n', '\n', 'c']
        >>> steps_of("124", "")
        ['1', '2', '4']
    """
    if not separator:
        return list(text)
    *ended, last = text.split(separator)
    return [part + separator for part in ended] + ([last] if last else [])


def _count_shared_steps(chosen: list[str], rejected: list[str]) -> int:
    """Count the first steps that both solutions share."""
    pairs = zip(chosen, rejected, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
