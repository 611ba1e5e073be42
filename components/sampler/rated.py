"""Batches of single answers with a rating, in shuffled epochs."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from components.sampler.demonstrations import Demonstrations
from rlcomp.arguments import PositiveInt
from rlcomp.data.pairs import ratings
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.keys import Key


class Rated(Demonstrations):
    """Sampler of answers with a rating, for reward models.

    The answer is the example's demonstration. The rating is its column ``rating``, or 1 or 0 by its
    column ``desirable``.

    Reads nothing. Writes what :class:`~components.sampler.demonstrations.Demonstrations` does,
    ``reward``, ``reward_valid`` and ``group_id`` ``[B]`` (one for each row); and ``columns``.

    Args:
        task: the task of the examples.
        tokenizer: the policy's tokenizer.
        batch_size: answers per batch.
        context_length: tokens the model can hold.
        prompt: how prompts become tokens; plain text if not given.

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

    def __init__(
        self,
        *,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt = 128,
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
        ratings([task.example(0)])

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a new batch of the next ``batch_size`` answers."""
        examples = self.examples.take(self.batch_size)
        rows = self.rows(examples)
        rows["reward"] = ratings(examples)
        rows["reward_valid"] = torch.ones(len(examples), dtype=torch.bool)
        rows["group_id"] = torch.arange(len(examples))
        return rows
