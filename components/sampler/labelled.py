"""Batches of single answers with a label, desirable or not, in shuffled epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from components.sampler.demonstrations import Demonstrations
from rlcomp.arguments import NonNegativeFloat, PositiveInt
from rlcomp.data.pairs import desirable, pair_weights
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.keys import Key, OwnKey


class Labelled(Demonstrations):
    """Sampler of answers with a label, for KTO: an example's demonstration and ``desirable``.

    Reads nothing. Writes what :class:`~components.sampler.demonstrations.Demonstrations` does,
    ``chosen`` (whether the answer is desirable) and ``group_id`` ``[B]`` (one for each row);
    ``columns``, and ``pair_weight`` ``[B]`` if the data or the settings give it.

    Args:
        task: the task of the examples, with a column ``desirable``: true or false.
        tokenizer: the policy's tokenizer.
        batch_size: answers per batch.
        context_length: tokens the model can hold.
        prompt: how prompts become tokens; plain text if not given.
        annotator_weight: weight of each annotator's labels.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: an example has no label, or is longer than the context.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "pair_weight": ("B", "float", "how much the row's pair counts", {"example": "positive"}),
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
        prompt: Prompt | None = None,
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
        desirable([task.example(0)])

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a new batch of the next ``batch_size`` answers."""
        examples = self.examples.take(self.batch_size)
        rows = self.rows(examples)
        rows["chosen"] = desirable(examples)
        rows["group_id"] = torch.arange(len(examples))
        weight = pair_weights(examples, self.annotator_weight)
        return rows if weight is None else rows.set("pair_weight", weight)
