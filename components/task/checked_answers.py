"""Answers to be checked: a right one or that of another example, and the verdict."""

from __future__ import annotations

import random

from rlcomp.arguments import Checked, NonEmptyText, Probability
from rlcomp.interfaces.task import Example, Task
from rlcomp.seed import named_seed


class CheckedAnswers(metaclass=Checked):
    """``"3+8=12?"`` asks for ``"n"``: whether an answer to another task's prompt is right.

    A wrong answer is the gold answer of another example. An example is held out where its prompt
    in the other task is.

    Args:
        task: whose prompts are answered.
        right: share of right answers.
        accept: the verdict on a right answer.
        refuse: that on a wrong one.
        ask: stands between the answer and the verdict.
        flawed: share of the demonstrations with the other verdict; at .5 nothing is taught.
    """

    def __init__(
        self,
        *,
        task: Task,
        right: Probability = 0.5,
        accept: NonEmptyText = "y",
        refuse: NonEmptyText = "n",
        ask: str = "?",
        flawed: Probability = 0.0,
    ) -> None:
        self.task = task
        self.right = right
        self.verdicts = {True: accept, False: refuse}
        self.ask = ask
        self.flawed = flawed
        self.held_out = task.held_out

    def __len__(self) -> int:
        """How many examples there are, training and held out."""
        return len(self.task)

    def example(self, index: int) -> Example:
        """An answer to the prompt of the same index."""
        of = self.task.example(index)
        draw = random.Random(named_seed(index, "checked answers"))
        answer = of.answer
        if draw.random() >= self.right:
            answer = self.task.example(draw.randrange(len(self.task))).answer
        right = answer == of.answer
        said = right != (draw.random() < self.flawed)
        return Example(
            f"{of.prompt}{answer}{self.ask}",
            self.verdicts[right],
            self.verdicts[said],
            source=of.held_out_by,
        )
