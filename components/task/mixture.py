"""Mixture of several tasks with a column for the task's name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from rlcomp.arguments import Checked, Fraction, MinLen, NonEmptyText
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example, Task


class TaskMixture(metaclass=Checked):
    """Task mixture: tasks alternate, and a column of each example holds the task's name.

    With ``reward=by_column`` every example is judged by the verifier of its domain. A shorter task
    repeats its examples.

    Args:
        tasks: the tasks by domain.
        column: the column of the name.
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
        _check(tasks, held_out)
        self.tasks = dict(tasks)
        self.column = column
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return len(self.tasks) * max(map(len, self.tasks.values()))

    def example(self, index: int) -> Example:
        """Return an example: the index's remainder chooses the task, its quotient the example."""
        number, which = divmod(index, len(self.tasks))
        name, task = [*self.tasks.items()][which]
        example = task.example(number % len(task))
        if self.column in example.columns:
            raise ConfigError(
                f"TaskMixture: examples of {name!r} have a column {self.column!r} themselves: "
                "set task.column"
            )
        return replace(example, columns={**example.columns, self.column: name})


def _check(tasks: Mapping[str, Task], held_out: float) -> None:
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
            f"{sys.maxsize} examples, which no index counts: shorten it"
        )
