"""Curricula over tasks and their levels of difficulty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any

import torch
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import MinLen, NonNegativeInt, PositiveInt, Probability
from rlcomp.checkpoint.state_fields import check_fields, field
from rlcomp.data.sampling import PromptSampler, ShuffledEpochs
from rlcomp.errors import ConfigError
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.metrics import record
from rlcomp.seed import named_seed


class Frontier(PromptSampler):
    """Sampler with a threshold curriculum: one task at a time, until it is mastered.

    The frontier is the current task. A batch whose mean pass rate is at least ``threshold`` moves
    the frontier to the next task. The frontier never moves back. Within a task, prompts come in
    shuffled epochs. Pass rates come from ``feedback=pass_rate``; without it this is
    ``sampler=epochs`` on the first task. The frontier and the positions in the epochs are part of a
    checkpoint.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts), ``answer_ends``
    (``[B, W]`` bool) and ``example_id`` (``[B]`` int64, the index in the batch's task) of a new
    batch, and ``columns`` where an example has any. Records ``frontier/task``, the number of the
    task from 1 on.

    Args:
        tasks: tasks by name, from easy to hard, without their held-out prompts.
        threshold: least mean pass rate of a batch for the next task.
        batch_size: prompts per batch (``B``).
        max_new_tokens: tokens for an answer, which a prompt must leave free.
        prompt: prompt format; None: plain text.

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
        return list(islice(self.examples[self.frontier].indexed(), count))

    def tell(self, pass_rates: Mapping[int, float]) -> None:
        """Move to the next task if the batch reached the threshold.

        The pass rates may be of an earlier task (a delayed collector); they count all the same.
        """
        mean = sum(pass_rates.values()) / max(len(pass_rates), 1)
        if pass_rates and mean >= self.threshold and self.frontier < len(self.tasks) - 1:
            self.frontier += 1

    def run_state(self) -> dict[str, Any]:
        """Return the frontier and the positions in the epochs."""
        return {
            "frontier": self.frontier,
            "examples": [examples.run_state() for examples in self.examples],
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the frontier and the positions in the epochs."""
        self.frontier = field(state, "frontier", NonNegativeInt, below=len(self.tasks))
        for examples, position in zip(self.examples, field(state, "examples", list), strict=True):
            examples.load_run_state(position)


class Families(PromptSampler):
    """Sampler with adaptive difficulty: the level of each family follows its pass rate.

    A family has levels from easy to hard, such as sorting two, four and six digits. The families
    share every batch equally. A family rises by one level if its mean pass rate in a batch is at
    least ``raise_at``, and falls by one level if it is below ``lower_at``. Within a
    level, prompts come in shuffled epochs. Pass rates come from ``feedback=pass_rate``; without it
    every family stays at its first level. Levels and the positions in the epochs are part of a
    checkpoint.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts), ``answer_ends``
    (``[B, W]`` bool) and ``example_id`` (``[B]`` int64, unique over all levels) of a new batch, and
    ``columns`` where an example has any. Records ``families/<family>``, the number of its level
    from 1 on.

    Args:
        families: by family, its levels by name, from easy to hard, without held-out prompts.
        raise_at: least mean pass rate for the next level.
        lower_at: mean pass rate below which a family goes down a level.
        batch_size: prompts per batch (``B``), at least one per family.
        max_new_tokens: tokens for an answer, which a prompt must leave free.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: a family has no level, ``lower_at`` is above ``raise_at``, ``batch_size`` is
            below the number of families, or a level has fewer training examples than its share of a
            batch.
        DataError: a prompt leaves no room for the answer.
    """

    writes = ("prompt", "answer", "answer_ends", "example_id")

    def __init__(
        self,
        *,
        families: Annotated[dict[str, dict[str, Task]], MinLen(1)],
        raise_at: Probability = 0.7,
        lower_at: Probability = 0.2,
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
        _check_families(families, raise_at, lower_at, batch_size)
        share = -(-batch_size // len(families))
        for levels in families.values():
            for task in levels.values():
                self.check(task, share)
        self.families = {name: [*levels.values()] for name, levels in families.items()}
        self.raise_at = raise_at
        self.lower_at = lower_at
        self.level = dict.fromkeys(families, 0)
        seed = torch.initial_seed()
        self.examples = {
            name: [
                ShuffledEpochs(task, named_seed(seed, f"{name} {level}"))
                for level, task in levels.items()
            ]
            for name, levels in families.items()
        }
        self.turn = 0  # the family that the next batch begins with
        # The id of a level's first example.
        self.offsets = dict(self._offsets())

    def _offsets(self) -> Iterator[tuple[tuple[str, int], int]]:
        """Yield family and level, and the number of examples in all earlier levels."""
        before = 0
        for name, tasks in self.families.items():
            for level, task in enumerate(tasks):
                yield (name, level), before
                before += len(task)

    def take(self, count: int) -> list[tuple[int, Example]]:
        """Return the next examples of each family at its level, with equal shares over time."""
        names = [*self.families]
        slots = [names[(self.turn + slot) % len(names)] for slot in range(count)]
        self.turn = (self.turn + count) % len(names)
        batch: list[tuple[int, Example]] = []
        for name in names:
            level = self.level[name]
            record(f"families/{name}", level + 1)
            examples = islice(self.examples[name][level].indexed(), slots.count(name))
            offset = self.offsets[name, level]
            batch += [(offset + index, example) for index, example in examples]
        return batch

    def tell(self, pass_rates: Mapping[int, float]) -> None:
        """Move each family by the mean pass rate of its examples at its level."""
        for name, tasks in self.families.items():
            level = self.level[name]
            start = self.offsets[name, level]
            ids = range(start, start + len(tasks[level]))
            rates = [rate for index, rate in pass_rates.items() if index in ids]
            if rates and sum(rates) / len(rates) >= self.raise_at:
                self.level[name] = min(level + 1, len(tasks) - 1)
            elif rates and sum(rates) / len(rates) < self.lower_at:
                self.level[name] = max(level - 1, 0)

    def run_state(self) -> dict[str, Any]:
        """Return levels and positions in the epochs."""
        return {
            "turn": self.turn,
            "level": dict(self.level),
            "examples": {
                name: [level.run_state() for level in levels]
                for name, levels in self.examples.items()
            },
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore levels and positions in the epochs."""
        self.turn = field(state, "turn", NonNegativeInt, below=len(self.families))
        level, positions = field(state, "level", dict), field(state, "examples", dict)
        check_fields(level, [*self.families])
        check_fields(positions, [*self.families])
        for name, levels in self.examples.items():
            self.level[name] = field(level, name, NonNegativeInt, below=len(levels))
            for examples, position in zip(levels, field(positions, name, list), strict=True):
                examples.load_run_state(position)


def _check_families(
    families: Mapping[str, Mapping[str, Task]], raise_at: float, lower_at: float, batch_size: int
) -> None:
    for name, levels in families.items():
        if not levels:
            raise ConfigError(f"Families: {name!r} has no level: name at least one task")
    if lower_at > raise_at:
        raise ConfigError(
            f"Families: lower_at is {lower_at:g}: must be at most raise_at, {raise_at:g}"
        )
    if batch_size < len(families):
        raise ConfigError(
            f"Families: batch_size is {batch_size}, below the number of families, {len(families)}"
        )
