"""Tasks made of other tasks."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from rlcomp.arguments import Checked, Fraction, MinLen, NonEmptyText, Probability, Unbuilt
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example, Task, is_held_out
from rlcomp.interfaces.verdicts import AnswerVerifier, verdict_options
from rlcomp.seed import named_seed


class TaskMixture(metaclass=Checked):
    """Task mixture: tasks alternate, and a column of each example holds the task's name.

    With ``reward=by_column`` every example is judged by the verifier of its domain. A shorter task
    repeats its examples.

    Args:
        tasks: the tasks by domain.
        column: the column that holds the task's name.
        held_out: share of the prompts that only evaluators see, at least the share of each task.
            The split is by a hash, so that it includes the held-out prompts of all tasks.

    Raises:
        ConfigError: a task holds out more, or there are more examples than an index can count;
            (when called) a task has this column itself.

    Examples:
        >>> from components.worlds.addition.task import Addition
        >>> from components.worlds.sorting.task import Sorting
        >>> task = TaskMixture(tasks={"sums": Addition(digits=1), "sort": Sorting(length=2)})
        >>> [(e.prompt, e.columns["verify_with"]) for e in map(task.example, (14, 15))]
        [('0+7=', 'sums'), ('07>', 'sort')]
    """

    def __init__(
        self,
        *,
        tasks: Annotated[dict[str, Task], MinLen(1)],
        column: NonEmptyText = "verify_with",
        held_out: Fraction = 0.1,
    ) -> None:
        _check_tasks(tasks, held_out)
        self.tasks = dict(tasks)
        self.column = column
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return len(self.tasks) * max(map(len, self.tasks.values()))

    def example(self, index: int) -> Example:
        """Return an example: the index's remainder chooses the task, its quotient the example."""
        number, task_index = divmod(index, len(self.tasks))
        name, task = [*self.tasks.items()][task_index]
        example = task.example(number % len(task))
        if self.column in example.columns:
            raise ConfigError(
                f"TaskMixture: examples of {name!r} have a column {self.column!r} themselves: "
                "set task.column"
            )
        return replace(example, columns={**example.columns, self.column: name})


def _check_tasks(tasks: Mapping[str, Task], held_out: float) -> None:
    for name, task in tasks.items():
        if task.held_out > held_out:
            remedy = "raise task.held_out" if task.held_out < 1 else "take it out of the mixture"
            raise ConfigError(
                f"TaskMixture: {name!r} holds out {task.held_out:g} of its prompts, and held_out "
                f"of the mixture is {held_out:g}: some would be trained on; {remedy}"
            )
    if len(tasks) * max(map(len, tasks.values())) > sys.maxsize:
        raise ConfigError(
            f"TaskMixture: {len(tasks)} tasks as long as the longest of them are more than "
            f"{sys.maxsize} examples, more than an index can count: shorten it"
        )


class HintedTask(metaclass=Checked):
    """Task with privileged text, such as the solution, in a share of the prompts.

    The prompt without this text decides the split. The choice of the hinted examples does
    not depend on their order.

    Args:
        task: the task of the examples.
        template: text of a hinted prompt, with ``{prompt}`` and ``{answer}`` of the example.
        share: share of the prompts that are hinted.

    Examples:
        >>> from components.worlds.sorting.task import Sorting
        >>> task = HintedTask(task=Sorting(length=2), template="{answer}={prompt}", share=1.0)
        >>> task.example(42).prompt
        '24=42>'
    """

    def __init__(
        self, *, task: Task, template: NonEmptyText = "{answer}={prompt}", share: Probability = 0.8
    ) -> None:
        self.task = task
        self.template = template
        self.share = share
        self.held_out = task.held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return len(self.task)

    def example(self, index: int) -> Example:
        """Return the example of the task, hinted or not."""
        example = self.task.example(index)
        # The hash differs from that of the held-out split. With the same hash, all or none of the
        # held-out prompts would be hinted.
        if not is_held_out(f"hint {example.held_out_by}", self.share):
            return example
        # Split at one field and fill the other in the parts, so that a field's name in a text has
        # no effect.
        parts = self.template.split("{prompt}")
        prompt = example.prompt.join(part.replace("{answer}", example.answer) for part in parts)
        return replace(example, prompt=prompt, source=example.held_out_by)


class AnswerVerdicts(metaclass=Checked):
    """Task of verdicts on another task's demonstrations: ``"12>1123=3?"`` has the answer ``"y"``.

    A judge can only learn from a task with some wrong demonstrations. A verdict is held out if the
    prompt of the judged demonstration is held out in the other task.

    Args:
        answers: the other task.
        verifier: a reward that scores single texts and gives the truth.
        accept: text of the verdict that the answer is right.
        reject: text of the verdict that it is wrong.
        asks: text between the answer and the verdict.
        reasons: column of the other task's examples with a text that a demonstration writes before
            its verdict; null: none.
        mislabelled: share of the demonstrations with the wrong verdict.

    Raises:
        ConfigError: the verifier is not a text reward that scores by itself, or an option ends with
            space or with the other option.
        DataError: an example has no column ``reasons`` of text.

    Examples:
        >>> from components.reward.answer import ExactMatch
        >>> from components.worlds.addition.task import Addition
        >>> task = AnswerVerdicts(answers=Addition(digits=1), verifier=ExactMatch())
        >>> task.example(12).prompt, task.example(12).demonstration
        ('1+2=3?', 'y')
    """

    def __init__(
        self,
        *,
        answers: Task,
        verifier: TextReward | Unbuilt,
        accept: NonEmptyText = "y",
        reject: NonEmptyText = "n",
        asks: NonEmptyText = "?",
        reasons: NonEmptyText | None = None,
        mislabelled: Probability = 0.0,
    ) -> None:
        self.answers = answers
        self.verifier = AnswerVerifier(verifier, "verdicts.verifier")
        self.options = verdict_options("AnswerVerdicts", accept, reject)
        self.asks = asks
        self.reasons = reasons
        self.mislabelled = mislabelled
        self.held_out = answers.held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return len(self.answers)

    def example(self, index: int) -> Example:
        """Return the verdict on the demonstration at the same index."""
        answer = self.answers.example(index)
        right = self.verifier.is_right(answer, answer.demonstration)
        is_mislabelled = random.Random(named_seed(index, "verdict")).random() < self.mislabelled
        accept, reject = self.options
        verdict = accept if right != is_mislabelled else reject
        return Example(
            f"{answer.prompt}{answer.demonstration}{self.asks}",
            accept if right else reject,
            f"{self._reasoning(answer)}{verdict}",
            source=answer.held_out_by,
        )

    def _reasoning(self, answer: Example) -> str:
        if self.reasons is None:
            return ""
        text = answer.columns.get(self.reasons)
        if not isinstance(text, str):
            raise DataError(
                f"verdicts.reasons is {self.reasons!r}: the example {answer.prompt!r:.60} has no "
                f"such column of text; it has {sorted(answer.columns)}; null writes no reasoning"
            )
        return text
