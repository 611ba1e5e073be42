"""Pass-rate curriculum with more prompts of intermediate difficulty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
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

    A share of the batch is drawn, uniformly and without replacement, from the examples whose latest
    pass rate is in ``[low, high]``. The rest of the batch comes from shuffled epochs over all
    training examples, and fills up a small band. Pass rates come from ``feedback=pass_rate``;
    without it this is ``sampler=epochs``. Pass rates and the place in the epoch are part of a
    checkpoint.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts), ``answer_ends``
    (``[B, W]`` bool) and ``example_id`` (``[B]`` int64, the index in the task) of a new batch.
    Records ``curriculum/in_band``, the share of the batch drawn from the band, and
    ``curriculum/tried``, the number of examples with a pass rate.

    Args:
        task: the task of the examples; held-out prompts are left out.
        tokenizer: the tokenizer; measures the prompts once, at construction.
        batch_size: prompts per batch (``B``).
        context_length: tokens the model can hold.
        max_new_tokens: tokens an answer may take.
        prompt: how prompts become tokens; plain text if not given.
        low: least pass rate of the band.
        high: largest pass rate of the band.
        exploration: expected share of the batch outside the band.

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
        chosen = {index: self.task.example(index) for index in self._in_band(count)}
        record("curriculum/in_band", len(chosen) / count)
        record("curriculum/tried", len(self.pass_rates))
        walk = self.examples.numbered()
        while len(chosen) < count:
            chosen.setdefault(*next(walk))
        return list(chosen.items())

    def _in_band(self, count: int) -> Iterator[int]:
        """Draw the non-exploration share from the band, or all of a smaller band."""
        band = [index for index, r in self.pass_rates.items() if self.low <= r <= self.high]
        known = torch.rand(count, generator=self.generator) >= self.exploration
        order = torch.randperm(len(band), generator=self.generator)
        return (band[place] for place in order[: int(known.sum())].tolist())

    def tell(self, pass_rates: Mapping[int, float]) -> None:
        """Store the latest pass rate of each example."""
        self.pass_rates.update(pass_rates)

    def run_state(self) -> dict[str, Any]:
        """Return the place in the epoch and the pass rates, for a checkpoint."""
        return {
            "examples": self.examples.run_state(),
            "tried": torch.tensor(list(self.pass_rates), dtype=torch.int64),
            "pass_rates": torch.tensor(list(self.pass_rates.values()), dtype=torch.float64),
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the place in the epoch and the pass rates."""
        self.examples.load_run_state(field(state, "examples", dict))
        tried = tensor_field(state, "tried", torch.int64)
        rates = tensor_field(state, "pass_rates", torch.float64, tried.shape)
        known = bool(((tried >= 0) & (tried < len(self.task))).all())
        if not known or len({*tried.tolist()}) < len(tried):
            raise CheckpointError("'tried' must hold indices of the task, none of them twice")
        if not bool(((rates >= 0) & (rates <= 1)).all()):
            raise CheckpointError("'pass_rates' must lie in [0, 1]")
        self.pass_rates = dict(zip(tried.tolist(), rates.tolist(), strict=True))
