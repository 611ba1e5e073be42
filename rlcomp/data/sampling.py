"""Samplers of training examples: shuffled epochs, and base classes of prompt samplers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import ClassVar, Protocol, runtime_checkable

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonNegativeInt, PositiveInt
from rlcomp.checkpoint.state_fields import count_field, field, seed_field
from rlcomp.component import Component
from rlcomp.data.examples import check_enough, check_prompts_fit, indexed_examples, prompt_batch
from rlcomp.data.permutation import permutation
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.keys import Key
from rlcomp.text.prompt import resolve_prompt_format


class ShuffledEpochs:
    """Sampler without replacement: each epoch visits every training example in a new order."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        self._start(seed, epoch=0, cursor=0)

    def _start(self, seed: int, epoch: int, cursor: int) -> None:
        self.seed, self.epoch, self.cursor = seed, epoch, cursor
        order = permutation(len(self.task), seed, f"epoch {epoch}")
        self._order = islice(order, cursor, None)

    def _indices(self) -> Iterator[int]:
        """Yield indices without end: the remainder of this epoch, then the next epochs."""
        while True:
            for index in self._order:
                self.cursor += 1
                yield index
            self._start(self.seed, self.epoch + 1, 0)

    def take(self, count: int) -> list[Example]:
        """Return the next examples, across the end of an epoch.

        The task must have training examples (:func:`rlcomp.data.examples.check_enough`).
        """
        return [example for _, example in islice(self.indexed(), count)]

    def indexed(self) -> Iterator[tuple[int, Example]]:
        """Yield training examples without end, each with its index in the task."""
        return indexed_examples(self.task, self._indices())

    def run_state(self) -> dict[str, int]:
        """Return the position in the epochs; JSON-serialisable."""
        return {"seed": self.seed, "epoch": self.epoch, "cursor": self.cursor}

    def load_run_state(self, state: dict[str, int]) -> None:
        """Restore the position that :meth:`run_state` has returned.

        Raises:
            CheckpointError: the state is no position in this task.
        """
        seed, epoch = seed_field(state), count_field(state, "epoch")
        self._start(seed, epoch, field(state, "cursor", NonNegativeInt, below=len(self.task) + 1))


@runtime_checkable
class TakesPassRates(Protocol):
    """Interface of samplers that take pass rates (curricula)."""

    def tell(self, pass_rates: Mapping[int, float]) -> None:
        """Take the pass rate in [0, 1] of each example, by its index in the task."""
        ...


class PromptSampler(Component):
    """Base of samplers: a new batch of the prompts that :meth:`take` chooses.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts) and ``answer_ends``
    (``[B, W]`` bool) of a new batch, and ``columns`` if an example has any. A subclass that lists
    ``example_id`` among its ``writes`` also writes the examples' indices, int64 ``[B]``.

    Args:
        tokenizer: measures the prompts once, at construction.
        batch_size: prompts per batch (``B``).
        context_length: tokens the model can hold.
        max_new_tokens: tokens an answer may take.
        prompt: encodes prompts as tokens; None: plain text.
    """

    reads = ()
    writes: ClassVar[tuple[Key, ...]] = ("prompt", "answer", "answer_ends")
    fresh = True

    def __init__(
        self,
        *,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt,
        context_length: PositiveInt,
        max_new_tokens: PositiveInt,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.context_length = context_length
        self.max_new_tokens = max_new_tokens
        self.prompt = resolve_prompt_format(prompt, tokenizer)

    def check(self, task: Task, count: int) -> None:
        """Refuse a task with too few training examples or too long prompts.

        Raises:
            ConfigError: the task has fewer than ``count`` training examples.
            DataError: a prompt leaves no room for the answer.
        """
        check_enough(task, count)
        room = (self.context_length, self.max_new_tokens)
        check_prompts_fit(task, self.tokenizer, *room, self.prompt)

    def take(self, count: int) -> list[tuple[int, Example]]:
        """Return the next examples, each with its index in its task."""
        raise NotImplementedError

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a new batch of ``batch_size`` prompts."""
        examples = self.take(self.batch_size)
        prompts = prompt_batch([example for _, example in examples])
        if "example_id" in self.writes:
            prompts["example_id"] = torch.tensor(
                [index for index, _ in examples], dtype=torch.int64
            )
        return prompts


class TaskSampler(PromptSampler):
    """Base of prompt samplers of one task, without its held-out prompts.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: a prompt leaves no room for the answer.
    """

    def __init__(
        self,
        *,
        task: Task,
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
        self.task = task
        self.check(task, batch_size)
        self.start()

    def start(self) -> None:
        """Prepare for :meth:`take`; called once, at construction."""
