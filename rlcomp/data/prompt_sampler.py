"""Base classes of prompt samplers."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import check_enough, check_prompts_fit, prompt_batch
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.keys import Key
from rlcomp.text.prompt import or_text


class PromptSampler(Component):
    """Base of samplers: a new batch of the prompts that :meth:`take` chooses.

    The indices are written too if a subclass lists ``example_id`` among its ``writes``.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts) and ``answer_ends``
    (``[B, W]`` bool) of a new batch, and ``columns`` where an example has any.

    Args:
        tokenizer: measures the prompts once, at construction.
        batch_size: prompts per batch (``B``).
        context_length: tokens the model can hold.
        max_new_tokens: tokens an answer may take.
        prompt: encodes prompts as tokens; plain text if not given.
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
        self.prompt = or_text(prompt, tokenizer)

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
    """A prompt sampler of one task.

    Args:
        task: where examples come from; held-out prompts are left out.
        tokenizer: measures the prompts once, at construction.
        batch_size: prompts per batch (``B``).
        context_length: tokens the model can hold.
        max_new_tokens: tokens an answer may take.
        prompt: encodes prompts as tokens; plain text if not given.

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
