"""Threshold curriculum: tasks from easy to hard, each until a threshold of accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonNegativeInt, PositiveInt, Probability
from rlcomp.checkpoint.state_fields import field
from rlcomp.data.sampling import PromptSampler, ShuffledEpochs
from rlcomp.errors import ConfigError
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.metrics import record
from rlcomp.seed import named_seed


class Frontier(PromptSampler):
    """Sampler with a threshold curriculum: one task at a time, until it is mastered.

    The tasks are ordered from easy to hard. A batch whose mean pass rate is at least ``threshold``
    moves the frontier to the next task. The frontier never moves back and stays at the last task.
    Within a task, prompts come in shuffled epochs. Pass rates come from ``feedback=pass_rate``;
    without it this is ``sampler=epochs`` on the first task. The frontier and the places in the
    epochs are part of a checkpoint.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts), ``answer_ends``
    (``[B, W]`` bool) and ``example_id`` (``[B]`` int64, the index in the batch's task) of a new
    batch. Records ``frontier/task``, the number of the task from 1 on.

    Args:
        tasks: tasks by name, from easy to hard; held-out prompts of each are left out.
        threshold: least mean pass rate of a batch for the next task.
        tokenizer: the tokenizer; measures the prompts once, at construction.
        batch_size: prompts per batch (``B``).
        context_length: tokens the model can hold.
        max_new_tokens: tokens an answer may take.
        prompt: how prompts become tokens; plain text if not given.

    Raises:
        ConfigError: there is no task, or one has fewer training examples than ``batch_size``.
        DataError: a prompt leaves no room for the answer.
    """

    writes = ("prompt", "answer", "answer_ends", "example_id")

    def __init__(
        self,
        *,
        tasks: dict[str, Task],
        threshold: Probability = 0.7,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt = 64,
        context_length: PositiveInt,
        max_new_tokens: PositiveInt,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__(
            tokenizer=tokenizer,
            batch_size=batch_size,
            context_length=context_length,
            max_new_tokens=max_new_tokens,
            prompt=prompt,
        )
        if not tasks:
            raise ConfigError("Frontier: tasks is empty: name at least one, from easy to hard")
        for task in tasks.values():
            self.check(task, batch_size)
        self.tasks = dict(tasks)
        self.threshold = threshold
        seed = torch.initial_seed()
        self.examples = [
            ShuffledEpochs(task, named_seed(seed, name)) for name, task in tasks.items()
        ]
        self.frontier = 0

    def take(self, count: int) -> list[tuple[int, Example]]:
        """Return the next examples of the task at the frontier."""
        record("frontier/task", self.frontier + 1)
        return list(islice(self.examples[self.frontier].numbered(), count))

    def tell(self, pass_rates: Mapping[int, float]) -> None:
        """Move to the next task if the batch reached the threshold."""
        mean = sum(pass_rates.values()) / max(len(pass_rates), 1)
        if pass_rates and mean >= self.threshold and self.frontier < len(self.tasks) - 1:
            self.frontier += 1

    def run_state(self) -> dict[str, Any]:
        """Return the frontier and the places in the epochs, for a checkpoint."""
        return {
            "frontier": self.frontier,
            "examples": [examples.run_state() for examples in self.examples],
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the frontier and the places in the epochs."""
        self.frontier = field(state, "frontier", NonNegativeInt, below=len(self.tasks))
        for examples, place in zip(self.examples, field(state, "examples", list), strict=True):
            examples.load_run_state(place)
