"""Samplers of answers with labels, ratings or rankings, in shuffled epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from components.sampler.demonstrations import Demonstrations
from rlcomp.arguments import MinLen, NonEmptyText, NonNegativeFloat, PositiveInt
from rlcomp.columns import DESIRABLE
from rlcomp.data.examples import check_rows_fit, demonstrations
from rlcomp.data.labelled_rows import label_rows, labelled_steps, step_rows
from rlcomp.data.pairs import desirable, pair_weights, ratings
from rlcomp.data.preference_rows import answers_of_ranking
from rlcomp.errors import DataError
from rlcomp.interfaces.prompt import Demonstration, PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.keys import Key, OwnKey


class LabelledAnswers(Demonstrations):
    """Sampler of answers with a label, for KTO: an example's demonstration and ``desirable``.

    Reads nothing. Writes the entries of :class:`~components.sampler.demonstrations.Demonstrations`,
    ``chosen`` (whether the answer is desirable) and ``group_id`` ``[B]`` (one for each row);
    ``columns``, and ``pair_weight`` ``[B]`` if the data or the settings give it.

    Args:
        task: the task of the examples, with a column ``desirable``: true or false.
        batch_size: answers per batch.
        prompt: prompt format; None: plain text.
        annotator_weight: weight of each annotator's labels.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: an example has no label, is longer than the context, or (when drawn, with
            ``annotator_weight``) has an annotator without a weight.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "pair_weight": ("B", "float", "weight of the row's pair", {"example": "positive"}),
    }
    writes: ClassVar[tuple[Key, ...]] = (*Demonstrations.writes, "chosen", "group_id")
    may_write = ("columns", "pair_weight")

    def __init__(
        self,
        *,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt = 128,
        context_length: PositiveInt,
        prompt: PromptFormat | None = None,
        annotator_weight: dict[str, NonNegativeFloat] | None = None,
    ) -> None:
        super().__init__(
            task=task,
            tokenizer=tokenizer,
            batch_size=batch_size,
            context_length=context_length,
            prompt=prompt,
        )
        self.annotator_weight = annotator_weight or {}

    def check_example(self, example: Example) -> None:
        """Refuse an example without a label."""
        desirable([example])

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a new batch of the next ``batch_size`` answers."""
        examples = self.examples.take(self.batch_size)
        rows = self.rows(examples)
        rows["chosen"] = desirable(examples)
        rows["group_id"] = torch.arange(len(examples))
        weight = pair_weights(examples, self.annotator_weight)
        return rows if weight is None else rows.set("pair_weight", weight)


class LabelledTextsSampler(Demonstrations):
    """Sampler of texts with labels, for a classifier.

    Reads nothing. Writes the entries of :class:`~components.sampler.demonstrations.Demonstrations`,
    ``labels`` ``[B, K]``, NaN where unknown; and ``columns``.

    Args:
        task: the task of the texts (``task=labelled_texts``).
        labels: names of the labels, in the order of the classifier's outputs.
        batch_size: texts per batch.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: an example has no labels, or is longer than the context.
    """

    writes: ClassVar[tuple[Key, ...]] = (*Demonstrations.writes, "labels")
    may_write = ("columns",)

    def __init__(
        self,
        *,
        task: Task,
        labels: Annotated[Sequence[NonEmptyText], MinLen(1)],
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt = 32,
        context_length: PositiveInt,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__(
            task=task,
            tokenizer=tokenizer,
            batch_size=batch_size,
            context_length=context_length,
            prompt=prompt,
        )
        self.labels = list(labels)
        label_rows([task.example(0)], self.labels)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a new batch of the next ``batch_size`` texts."""
        examples = self.examples.take(self.batch_size)
        return self.rows(examples).set("labels", label_rows(examples, self.labels))


class RatedAnswers(Demonstrations):
    """Sampler of answers with a rating, for reward models.

    The answer is the example's demonstration. The rating is its column ``rating``, or 1 or 0 by its
    column ``desirable``.

    Reads nothing. Writes the entries of :class:`~components.sampler.demonstrations.Demonstrations`,
    ``reward``, ``reward_valid`` and ``group_id`` ``[B]`` (one for each row); and ``columns``.

    Args:
        task: the task of the examples.
        batch_size: answers per batch.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: an example has no rating, or is longer than the context.
    """

    writes: ClassVar[tuple[Key, ...]] = (
        *Demonstrations.writes,
        "reward",
        "reward_valid",
        "group_id",
    )
    may_write = ("columns",)

    def check_example(self, example: Example) -> None:
        """Refuse an example without a rating."""
        ratings([example])

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a new batch of the next ``batch_size`` answers."""
        examples = self.examples.take(self.batch_size)
        rows = self.rows(examples)
        rows["reward"] = ratings(examples)
        rows["reward_valid"] = torch.ones(len(examples), dtype=torch.bool)
        rows["group_id"] = torch.arange(len(examples))
        return rows


class Rankings(Demonstrations):
    """Sampler of rankings of ``K`` answers, for ``loss=plackett_luce``: K adjacent rows each.

    Reads nothing. Writes the entries of :class:`~components.sampler.demonstrations.Demonstrations`,
    ``reward``, ``reward_valid`` and ``group_id`` ``[B]`` (one for each ranking); and ``columns``.

    Args:
        task: the task of the rankings, such as ``task=preferences task.ratings=ranking``.
        batch_size: rankings per batch.
        group_size: K, number of answers in a ranking.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: an example is not a ranking of K answers, or is longer than the context.
    """

    writes: ClassVar[tuple[Key, ...]] = (
        *Demonstrations.writes,
        "reward",
        "reward_valid",
        "group_id",
    )
    may_write = ("columns",)

    def __init__(
        self,
        *,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt = 32,
        group_size: Annotated[int, Ge(2)],
        context_length: PositiveInt,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__(
            task=task,
            tokenizer=tokenizer,
            batch_size=batch_size,
            context_length=context_length,
            prompt=prompt,
        )
        self.group_size = group_size
        check_rows_fit(task, context_length, self.prompt, self._demonstrations)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a batch of the next ``batch_size`` rankings."""
        examples = self.examples.take(self.batch_size)
        answers = [answer for example in examples for answer in self._answers(example)]
        rows = self.rows(answers)
        rows["reward"] = ratings(answers)
        rows["reward_valid"] = torch.ones(len(answers), dtype=torch.bool)
        rows["group_id"] = torch.arange(len(examples)).repeat_interleave(self.group_size)
        return rows

    def _demonstrations(self, prompt: PromptFormat, examples: list[Example]) -> list[Demonstration]:
        answers = [answer for example in examples for answer in self._answers(example)]
        return demonstrations(prompt, answers)

    def _answers(self, example: Example) -> list[Example]:
        answers = answers_of_ranking(example)
        if len(answers) != self.group_size:
            raise DataError(
                f"the example {example.prompt[:60]!r} has {len(answers)} ranked answers, but "
                f"group_size is {self.group_size}: set it to the size of all rankings, or delete "
                "the row"
            )
        return answers


class StepLabels(Demonstrations):
    """Sampler of answers with a label for each step, for process reward models.

    The answer is the example's demonstration. Its column ``steps`` holds consecutive parts of the
    answer, ``step_labels`` the label of each step: true, false, a probability, or null if unknown.
    The label is written to the token that completes the step.

    Reads nothing. Writes the entries of :class:`~components.sampler.demonstrations.Demonstrations`,
    ``step_end`` (of the steps with a label) and ``step_label`` ``[B, T]``, ``group_id`` ``[B]``
    (one for each row); ``reward`` and ``reward_valid`` ``[B]``; and ``columns``. The reward is the
    column ``desirable``; without this column, 0 if a known label is at most 0.5, else 1.

    Args:
        task: the task of the examples.
        batch_size: answers per batch.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: an example has no labelled steps, or is longer than the context.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "step_label": (
            "B T",
            "float",
            "correctness of the step that ends with the token, from 0 to 1",
            {"example": "probability"},
        ),
    }
    writes: ClassVar[tuple[Key, ...]] = (
        *Demonstrations.writes,
        "step_end",
        "step_label",
        "group_id",
        "reward",
        "reward_valid",
    )
    may_write = ("columns",)

    def check_example(self, example: Example) -> None:
        """Refuse an example without labelled steps."""
        labelled_steps(example)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a new batch of the next ``batch_size`` answers."""
        examples = self.examples.take(self.batch_size)
        rows = step_rows(self.tokenizer, self.prompt, examples)
        rows["group_id"] = torch.arange(len(examples))
        all_right = ((rows["step_label"] > 0.5) | ~rows["step_end"]).all(1)
        rewards = [
            example.columns.get(DESIRABLE, right)
            for example, right in zip(examples, all_right.tolist(), strict=True)
        ]
        rows["reward"] = torch.tensor(rewards).float()
        rows["reward_valid"] = torch.ones(len(examples), dtype=torch.bool)
        return rows
