"""Task mixture with a schedule of its weights."""

from __future__ import annotations

from itertools import islice
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonNegativeFloat, PositiveInt
from rlcomp.checkpoint.state_fields import check_fields
from rlcomp.data.sampling import PromptSampler, ShuffledEpochs
from rlcomp.errors import ConfigError, nearest
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.metrics import progress, record
from rlcomp.seed import named_seed, new_generator


class TaskPools(PromptSampler):
    """Sampler of a task mixture with weights interpolated linearly over the phase.

    The weights of each end are divided by their sum before the interpolation. For a curriculum from
    easy to hard put ``weights_start`` on the easy task and ``weights_end`` on the hard one. The
    same weights at both ends give a fixed mixture. Within a task, prompts come in shuffled epochs;
    a batch in which an epoch ends may hold a prompt twice. The positions in the epochs are
    part of a checkpoint.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts) and ``answer_ends``
    (``[B, W]`` bool) of a new batch, and ``columns`` where an example has any. Records
    ``pools/<task>``, the share of each task in the batch.

    Args:
        tasks: tasks by name, without their held-out prompts.
        weights_start: weight of each task at the start of the phase; they need not sum to 1.
        weights_end: weight of each task at the end of the phase.
        batch_size: prompts per batch (``B``).
        max_new_tokens: tokens for an answer, which a prompt must leave free.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: weights lack a task, name another one or are all 0, or a task has no training
            examples.
        DataError: a prompt leaves no room for the answer.
    """

    def __init__(
        self,
        *,
        tasks: dict[str, Task],
        weights_start: dict[str, NonNegativeFloat],
        weights_end: dict[str, NonNegativeFloat],
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
        _check_weights("weights_start", list(tasks), weights_start)
        _check_weights("weights_end", list(tasks), weights_end)
        for task in tasks.values():
            self.check(task, 1)
        self.tasks = dict(tasks)
        self.weights_start = dict(weights_start)
        self.weights_end = dict(weights_end)
        seed = torch.initial_seed()
        self.examples = {
            name: ShuffledEpochs(task, named_seed(seed, name)) for name, task in tasks.items()
        }
        self.generator = new_generator()

    def take(self, count: int) -> list[tuple[int, Example]]:
        """Return the next examples; the number from each task is random, by its weight."""
        shares = torch.tensor(self.shares(progress()), dtype=torch.float64)
        tasks = torch.multinomial(shares, count, replacement=True, generator=self.generator)
        batch: list[tuple[int, Example]] = []
        for number, (name, examples) in enumerate(self.examples.items()):
            rows = int((tasks == number).sum())
            record(f"pools/{name}", rows / count)
            batch += islice(examples.indexed(), rows)
        return batch

    def shares(self, at: float) -> list[float]:
        """Return the expected share of each task at a progress in [0, 1] of the phase."""
        starts, ends = (
            [weights[name] / sum(weights.values()) for name in self.tasks]
            for weights in (self.weights_start, self.weights_end)
        )
        return [(1 - at) * start + at * end for start, end in zip(starts, ends, strict=True)]

    def run_state(self) -> dict[str, Any]:
        """Return the positions in the epochs."""
        return {name: examples.run_state() for name, examples in self.examples.items()}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the positions in the epochs."""
        check_fields(state, [*self.examples])
        for name, examples in self.examples.items():
            examples.load_run_state(state[name])


def _check_weights(argument: str, tasks: list[str], weights: dict[str, float]) -> None:
    for name in weights:
        if name not in tasks:
            raise ConfigError(f"TaskPools: {argument} names {name!r}{nearest(name, tasks)}")
    for name in tasks:
        if name not in weights:
            raise ConfigError(
                f"TaskPools: {argument} has no weight for {name!r}: set it, 0 for none"
            )
    if not sum(weights.values()) > 0:
        raise ConfigError(
            f"TaskPools: {argument} is {weights}: at least one weight must be above 0"
        )
