"""Batches of texts with several labels, in shuffled epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from components.sampler.demonstrations import Demonstrations
from rlcomp.arguments import MinLen, NonEmptyText, PositiveInt
from rlcomp.data.labels import label_rows
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.keys import Key


class LabelledTextsSampler(Demonstrations):
    """Sampler of texts with labels, for a classifier.

    Reads nothing. Writes what :class:`~components.sampler.demonstrations.Demonstrations` does, and
    ``labels`` ``[B, K]``, NaN where unknown; and ``columns``.

    Args:
        task: the task of the texts (``task=labelled_texts``).
        labels: names of the labels, in the order of the classifier's outputs.
        tokenizer: the policy's tokenizer.
        batch_size: texts per batch.
        context_length: tokens the model can hold.
        prompt: how texts become tokens; plain text if not given.

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
        prompt: Prompt | None = None,
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
