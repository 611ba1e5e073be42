"""Verdicts on the demonstrations of another task."""

from __future__ import annotations

import random

from rlcomp.arguments import Checked, NonEmptyText, Probability, Unbuilt
from rlcomp.errors import DataError
from rlcomp.interfaces.reward import TextReward
from rlcomp.interfaces.task import Example, Task
from rlcomp.interfaces.verdicts import AnswerVerifier, verdict_options
from rlcomp.seed import named_seed


class AnswerVerdicts(metaclass=Checked):
    """Task of verdicts on another task's demonstrations: ``"12>1123=3?"`` has the answer ``"y"``.

    A verifier can only learn from a task with some wrong demonstrations. An example is held out if
    its prompt is.

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
        ConfigError: the verifier is no text reward that scores by itself, or one option ends with
            the other.
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
        shown = self.answers.example(index)
        right = self.verifier.is_right(shown, shown.demonstration)
        flawed = random.Random(named_seed(index, "verdict")).random() < self.mislabelled
        accept, reject = self.options
        verdict = accept if right != flawed else reject
        return Example(
            f"{shown.prompt}{shown.demonstration}{self.asks}",
            accept if right else reject,
            f"{self._reasoning(shown)}{verdict}",
            source=shown.held_out_by,
        )

    def _reasoning(self, shown: Example) -> str:
        if self.reasons is None:
            return ""
        text = shown.columns.get(self.reasons)
        if not isinstance(text, str):
            raise DataError(
                f"verdicts.reasons is {self.reasons!r}: the example {shown.prompt!r:.60} has no "
                f"such column of text; it has {sorted(shown.columns)}; null writes no reasoning"
            )
        return text
