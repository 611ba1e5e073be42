"""Difficulty pools, in which solved and hopeless prompts rest for some time."""

from __future__ import annotations

from collections.abc import Mapping
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


class DifficultyPools(TaskSampler):
    """Sampler with difficulty pools: solved and hopeless prompts rest for some epochs.

    A prompt rests after its pass rate was at least ``solved``, or at most ``hopeless``,
    ``patience`` times in a row. The shuffled epochs then skip it ``release_after`` times, and its
    record is cleared. So it is drawn in ``patience`` of ``patience + release_after`` epochs, for
    any number of prompts. If all prompts of an epoch rest, those with the shortest remaining rest
    are drawn. Pass rates come from ``feedback=pass_rate``; without it this is ``sampler=epochs``.
    Pools and the place in the epoch are part of a checkpoint.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts), ``answer_ends``
    (``[B, W]`` bool) and ``example_id`` (``[B]`` int64, the index in the task) of a new batch.
    Records ``retired/solved`` and ``retired/hopeless``, the numbers of prompts at rest after this
    batch, and ``retired/released``, the number of prompts released for it.

    Args:
        task: the task of the examples; held-out prompts are left out.
        tokenizer: the tokenizer; measures the prompts once, at construction.
        batch_size: prompts per batch (``B``).
        context_length: tokens the model can hold.
        max_new_tokens: tokens an answer may take.
        prompt: how prompts become tokens; plain text if not given.
        solved: least pass rate of a solved prompt.
        hopeless: largest pass rate of a hopeless prompt.
        patience: number of such pass rates in a row.
        release_after: number of epochs that skip the prompt.

    Raises:
        ConfigError: ``hopeless`` is not below ``solved``, or the task has fewer training examples
            than ``batch_size``.
        DataError: a prompt leaves no room for the answer.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.2, which samples groups of equal rewards
        and drops them. That such prompts rest instead is this project's.
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
        prompt: PromptFormat | None = None,
        solved: Probability = 1.0,
        hopeless: Probability = 0.0,
        patience: PositiveInt = 2,
        release_after: PositiveInt = 20,
    ) -> None:
        if hopeless >= solved:
            raise ConfigError(
                f"DifficultyPools: hopeless is {hopeless:g}: must be below solved, {solved:g}"
            )
        super().__init__(
            task=task,
            tokenizer=tokenizer,
            batch_size=batch_size,
            context_length=context_length,
            max_new_tokens=max_new_tokens,
            prompt=prompt,
        )
        self.solved = solved
        self.hopeless = hopeless
        self.patience = patience
        self.release_after = release_after
        self.streaks: dict[int, int] = {}  # positive: solved in a row; negative: hopeless
        self.resting: dict[int, int] = {}  # epochs left to skip

    def start(self) -> None:
        """Begin the first epoch."""
        self.examples = ShuffledEpochs(self.task, torch.initial_seed())

    def take(self, count: int) -> list[tuple[int, Example]]:
        """Return the next examples that do not rest, each at most once."""
        chosen: dict[int, Example] = {}
        passed: dict[int, Example] = {}
        resting, first_epoch = {*self.resting}, self.examples.epoch
        for index, example in self.examples.numbered():
            (passed if self._rests(index) else chosen)[index] = example
            if self.examples.epoch > first_epoch + 1:  # a whole epoch has passed
                passed = {number: passed[number] for number in passed if number in self.resting}
                chosen |= self._called_back(passed, count - len(chosen))
            if len(chosen) == count:
                break
        record("retired/released", len(resting - {*self.resting}))
        record("retired/solved", sum(self.streaks[index] > 0 for index in self.resting))
        record("retired/hopeless", sum(self.streaks[index] < 0 for index in self.resting))
        return list(chosen.items())

    def _rests(self, index: int) -> bool:
        """Return whether a prompt is skipped; release it when its rest is over."""
        if index not in self.resting:
            return False
        if self.resting[index] == 0:
            self._release(index)
            return False
        self.resting[index] -= 1
        return True

    def _called_back(self, passed: Mapping[int, Example], count: int) -> dict[int, Example]:
        """Release the prompts with the shortest remaining rest, as many as a batch lacks."""
        first = sorted(passed, key=self.resting.__getitem__)[:count]
        for index in first:
            self._release(index)
        return {index: passed[index] for index in first}

    def _release(self, index: int) -> None:
        del self.resting[index], self.streaks[index]

    def tell(self, pass_rates: Mapping[int, float]) -> None:
        """Count solved and hopeless prompts, and retire those with enough in a row.

        Skip prompts that rest already: their answers were sampled before (a delayed collector).
        """
        for index, rate in pass_rates.items():
            if index in self.resting:
                continue
            before = self.streaks.pop(index, 0)
            if rate >= self.solved:
                self.streaks[index] = max(before, 0) + 1
            elif rate <= self.hopeless:
                self.streaks[index] = min(before, 0) - 1
            if abs(self.streaks.get(index, 0)) >= self.patience:
                self.resting[index] = self.release_after

    def run_state(self) -> dict[str, Any]:
        """Return the place in the epoch and the pools, for a checkpoint."""
        streaks, resting = self.streaks, self.resting
        numbers = {
            "tried": [*streaks],
            "streaks": [*streaks.values()],
            "turns": [resting.get(index, -1) for index in streaks],
        }
        return {
            "examples": self.examples.run_state(),
            **{name: torch.tensor(each, dtype=torch.int64) for name, each in numbers.items()},
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the place in the epoch and the pools."""
        self.examples.load_run_state(field(state, "examples", dict))
        tried = tensor_field(state, "tried", torch.int64)
        known = bool(((tried >= 0) & (tried < len(self.task))).all())
        if not known or len({*tried.tolist()}) < len(tried):
            raise CheckpointError("'tried' must hold indices of the task, none of them twice")
        streaks = tensor_field(state, "streaks", torch.int64, tried.shape)
        turns = self._turns_left(state, tried.shape)
        if bool(((streaks == 0) | (turns < -1)).any()):
            raise CheckpointError("'streaks' must hold no 0, and 'turns' nothing below -1")
        self.streaks = dict(zip(tried.tolist(), streaks.tolist(), strict=True))
        rests = zip(tried.tolist(), turns.clamp(max=self.release_after).tolist(), strict=True)
        self.resting = {index: rest for index, rest in rests if rest >= 0}

    def _turns_left(self, state: dict[str, Any], shape: torch.Size) -> Tensor:
        """Return the number of epochs that skip each prompt; -1 if it does not rest."""
        if "until" in state and "turns" not in state:  # an older checkpoint counts batches
            until = tensor_field(state, "until", torch.int64, shape)
            return torch.where(until > 0, self.release_after, -1)
        return tensor_field(state, "turns", torch.int64, shape)
