"""Families of tasks with adaptive difficulty."""

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


class Families(PromptSampler):
    """Sampler with adaptive difficulty: the level of each family follows its pass rate.

    A family has levels from easy to hard, such as sorting two, four and six digits. The families
    share every batch equally. If the mean pass rate of a family in a batch is at least
    ``raise_at``, it goes up a level; if it is below ``lower_at``, it goes down a level. Within a
    level, prompts come in shuffled epochs. Pass rates come from ``feedback=pass_rate``; without it
    every family stays at its first level. Levels and the places in the epochs are part of a
    checkpoint.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts), ``answer_ends``
    (``[B, W]`` bool) and ``example_id`` (``[B]`` int64, unique over all levels) of a new batch.
    Records ``families/<family>``, the number of its level from 1 on.

    Args:
        families: by family, its levels by name, from easy to hard; held-out prompts of each are
            left out.
        raise_at: least mean pass rate for the next level.
        lower_at: mean pass rate below which a family goes down a level.
        tokenizer: the tokenizer; measures the prompts once, at construction.
        batch_size: prompts per batch (``B``), at least one per family.
        context_length: tokens the model can hold.
        max_new_tokens: tokens an answer may take.
        prompt: how prompts become tokens; plain text if not given.

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
        _check(families, raise_at, lower_at, batch_size)
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
        # Number of examples in all earlier levels: the id of a level's first example.
        self.offsets = dict(self._offsets())

    def _offsets(self) -> Iterator[tuple[tuple[str, int], int]]:
        before = 0
        for name, tasks in self.families.items():
            for level, task in enumerate(tasks):
                yield (name, level), before
                before += len(task)

    def take(self, count: int) -> list[tuple[int, Example]]:
        """Return the next examples of each family at its level, with equal shares over time."""
        order = [*self.families]
        places = [order[(self.turn + place) % len(order)] for place in range(count)]
        self.turn = (self.turn + count) % len(order)
        chosen: list[tuple[int, Example]] = []
        for name in order:
            level = self.level[name]
            record(f"families/{name}", level + 1)
            taken = islice(self.examples[name][level].numbered(), places.count(name))
            offset = self.offsets[name, level]
            chosen += [(offset + index, example) for index, example in taken]
        return chosen

    def tell(self, pass_rates: Mapping[int, float]) -> None:
        """Move each family by the mean pass rate of its examples at its level."""
        for name, tasks in self.families.items():
            level = self.level[name]
            start = self.offsets[name, level]
            own = [
                rate
                for index, rate in pass_rates.items()
                if start <= index < start + len(tasks[level])
            ]
            if own and sum(own) / len(own) >= self.raise_at:
                self.level[name] = min(level + 1, len(tasks) - 1)
            elif own and sum(own) / len(own) < self.lower_at:
                self.level[name] = max(level - 1, 0)

    def run_state(self) -> dict[str, Any]:
        """Return levels and places in the epochs, for a checkpoint."""
        return {
            "turn": self.turn,
            "level": dict(self.level),
            "examples": {
                name: [level.run_state() for level in levels]
                for name, levels in self.examples.items()
            },
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore levels and places in the epochs."""
        self.turn = field(state, "turn", NonNegativeInt, below=len(self.families))
        level, places = field(state, "level", dict), field(state, "examples", dict)
        check_fields(level, [*self.families])
        check_fields(places, [*self.families])
        for name, levels in self.examples.items():
            self.level[name] = field(level, name, NonNegativeInt, below=len(levels))
            for examples, place in zip(levels, field(places, name, list), strict=True):
                examples.load_run_state(place)


def _check(
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
