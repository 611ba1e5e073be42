"""Pass-rate curriculum with more prompts of intermediate difficulty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import PositiveInt, Probability
from rlcomp.checkpoint.state_fields import field, tensor_field
from rlcomp.data.sampling import ShuffledEpochs, TaskSampler
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.metrics import record
from rlcomp.seed import new_generator


class Curriculum(TaskSampler):
    """Pass-rate curriculum: a sampler with part of the batch from a band of pass rates.

    An expected share of ``1 - exploration`` of the batch is drawn, uniformly and without
    replacement, from the examples whose latest pass rate is in ``[low, high]``. If fewer examples
    are in this band, all of them are drawn. The other prompts come from shuffled epochs over all
    training examples. Pass rates come from ``feedback=pass_rate``; without it this is
    ``sampler=epochs``.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts), ``answer_ends``
    (``[B, W]`` bool) and ``example_id`` (``[B]`` int64, the index in the task) of a new batch, and
    ``columns`` where an example has any.
    Records ``curriculum/in_band``, the share of the batch drawn from the band, and
    ``curriculum/tried``, the number of examples with a pass rate.

    Args:
        task: the task of the examples, without its held-out prompts.
        batch_size: prompts per batch (``B``).
        max_new_tokens: tokens for an answer, which a prompt must leave free.
        prompt: prompt format; None: plain text.
        low: least pass rate of the band.
        high: largest pass rate of the band.
        exploration: expected share of the batch from the shuffled epochs, whose prompts may be in
            the band, too.

    Raises:
        ConfigError: the band is empty, or the task has fewer training examples than
            ``batch_size``.
        DataError: a prompt leaves no room for the answer.

    Source:
        Bae et al. 2025, arXiv:2504.03380 (a band of pass rates, here measured in training).
    """

    writes = ("prompt", "answer", "answer_ends", "example_id")

    def __init__(
        self,
        *,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt = 64,
        context_length: PositiveInt,
        max_new_tokens: PositiveInt,
        low: Probability = 0.2,
        high: Probability = 0.8,
        exploration: Probability = 0.3,
        prompt: PromptFormat | None = None,
    ) -> None:
        if low > high:
            raise ConfigError(f"Curriculum: low is {low}, above high {high}: no pass rate fits")
        super().__init__(
            task=task,
            tokenizer=tokenizer,
            batch_size=batch_size,
            context_length=context_length,
            max_new_tokens=max_new_tokens,
            prompt=prompt,
        )
        self.low = low
        self.high = high
        self.exploration = exploration
        self.pass_rates: dict[int, float] = {}

    def start(self) -> None:
        """Start the first epoch and seed the generator."""
        self.examples = ShuffledEpochs(self.task, torch.initial_seed())
        self.generator = new_generator()

    def take(self, count: int) -> list[tuple[int, Example]]:
        """Return the next examples, each at most once."""
        examples = {index: self.task.example(index) for index in self._draw_band(count)}
        record("curriculum/in_band", len(examples) / count)
        record("curriculum/tried", len(self.pass_rates))
        epochs = self.examples.indexed()
        while len(examples) < count:
            examples.setdefault(*next(epochs))
        return list(examples.items())

    def _draw_band(self, count: int) -> Iterator[int]:
        """Draw the non-exploration share of a batch from the band, or all of a smaller band."""
        band = [index for index, rate in self.pass_rates.items() if self.low <= rate <= self.high]
        from_band = torch.rand(count, generator=self.generator) >= self.exploration
        order = torch.randperm(len(band), generator=self.generator)
        return (band[i] for i in order[: int(from_band.sum())].tolist())

    def tell(self, pass_rates: Mapping[int, float]) -> None:
        """Store the latest pass rate of each example."""
        self.pass_rates.update(pass_rates)

    def run_state(self) -> dict[str, Any]:
        """Return the position in the epoch and the pass rates."""
        return {
            "examples": self.examples.run_state(),
            "tried": torch.tensor(list(self.pass_rates), dtype=torch.int64),
            "pass_rates": torch.tensor(list(self.pass_rates.values()), dtype=torch.float64),
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the position in the epoch and the pass rates."""
        self.examples.load_run_state(field(state, "examples", dict))
        indices = task_indices(state, self.task)
        rates = tensor_field(state, "pass_rates", torch.float64, indices.shape)
        if not bool(((rates >= 0) & (rates <= 1)).all()):
            raise CheckpointError("'pass_rates' must lie in [0, 1]")
        self.pass_rates = dict(zip(indices.tolist(), rates.tolist(), strict=True))


def task_indices(state: dict[str, Any], task: Task) -> Tensor:
    """Return the entry ``tried`` of a state: distinct indices of the task.

    Raises:
        CheckpointError: an index is outside of the task, or occurs twice.
    """
    indices = tensor_field(state, "tried", torch.int64)
    in_range = bool(((indices >= 0) & (indices < len(task))).all())
    if not in_range or len({*indices.tolist()}) < len(indices):
        raise CheckpointError("'tried' must hold indices of the task, none of them twice")
    return indices
