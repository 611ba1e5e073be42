"""Difficulty pools: solved and hopeless prompts rest for some epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from components.sampler.curriculum import task_indices
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
    ``patience`` times in a row. The shuffled epochs then skip it ``release_after`` times, so that
    it is drawn in ``patience`` of ``patience + release_after`` epochs. If a whole epoch has fewer
    prompts that do not rest than the batch needs, the prompts with the shortest remaining rest
    complete the batch. Pass rates come from ``feedback=pass_rate``; without it this is
    ``sampler=epochs``.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts), ``answer_ends``
    (``[B, W]`` bool) and ``example_id`` (``[B]`` int64, the index in the task) of a new batch, and
    ``columns`` where an example has any.
    Records ``retired/solved`` and ``retired/hopeless``, the numbers of prompts at rest after this
    batch, and ``retired/released``, the number of prompts released for it.

    Args:
        task: the task of the examples, without its held-out prompts.
        batch_size: prompts per batch (``B``).
        max_new_tokens: tokens for an answer, which a prompt must leave free.
        prompt: prompt format; None: plain text.
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
        and drops them. To rest such prompts instead is this project's.
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
        batch: dict[int, Example] = {}
        skipped: dict[int, Example] = {}
        resting, first_epoch = {*self.resting}, self.examples.epoch
        for index, example in self.examples.indexed():
            (skipped if self._skip(index) else batch)[index] = example
            # Epoch first_epoch + 1 was read from its beginning to its end.
            if self.examples.epoch > first_epoch + 1:
                skipped = {i: skipped[i] for i in skipped if i in self.resting}
                batch |= self._recall(skipped, count - len(batch))
            if len(batch) == count:
                break
        record("retired/released", len(resting - {*self.resting}))
        record("retired/solved", sum(self.streaks[index] > 0 for index in self.resting))
        record("retired/hopeless", sum(self.streaks[index] < 0 for index in self.resting))
        return list(batch.items())

    def _skip(self, index: int) -> bool:
        """Return whether a prompt rests in this epoch; release it at the end of its rest."""
        if index not in self.resting:
            return False
        if self.resting[index] == 0:
            self._release(index)
            return False
        self.resting[index] -= 1
        return True

    def _recall(self, skipped: Mapping[int, Example], count: int) -> dict[int, Example]:
        """Release the ``count`` prompts with the shortest remaining rest."""
        first = sorted(skipped, key=self.resting.__getitem__)[:count]
        for index in first:
            self._release(index)
        return {index: skipped[index] for index in first}

    def _release(self, index: int) -> None:
        del self.resting[index], self.streaks[index]

    def tell(self, pass_rates: Mapping[int, float]) -> None:
        """Update the streaks of the prompts; those with a streak of ``patience`` rest.

        Pass rates of resting prompts are ignored: their answers are old (a delayed collector).
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
        """Return the position in the epoch and the pools.

        ``tried`` are the indices of the prompts with a streak; ``streaks`` and ``turns`` (epochs
        that still skip the prompt, -1 if it does not rest) belong to them.
        """
        entries = {
            "tried": [*self.streaks],
            "streaks": [*self.streaks.values()],
            "turns": [self.resting.get(index, -1) for index in self.streaks],
        }
        return {
            "examples": self.examples.run_state(),
            **{name: torch.tensor(entry, dtype=torch.int64) for name, entry in entries.items()},
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the position in the epoch and the pools."""
        self.examples.load_run_state(field(state, "examples", dict))
        indices = task_indices(state, self.task)
        streaks = tensor_field(state, "streaks", torch.int64, indices.shape)
        turns = self._load_turns(state, indices.shape)
        if bool(((streaks == 0) | (turns < -1)).any()):
            raise CheckpointError("'streaks' must hold no 0, and 'turns' nothing below -1")
        self.streaks = dict(zip(indices.tolist(), streaks.tolist(), strict=True))
        rests = zip(indices.tolist(), turns.clamp(max=self.release_after).tolist(), strict=True)
        self.resting = {index: rest for index, rest in rests if rest >= 0}

    def _load_turns(self, state: dict[str, Any], shape: torch.Size) -> Tensor:
        """Return the number of epochs that still skip each prompt; -1 if it does not rest."""
        if "until" in state and "turns" not in state:  # an older checkpoint counts batches
            until = tensor_field(state, "until", torch.int64, shape)
            return torch.where(until > 0, self.release_after, -1)
        return tensor_field(state, "turns", torch.int64, shape)
