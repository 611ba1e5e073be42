"""Uniform sampling of training prompts."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import check_enough, check_prompts_fit, prompt_batch
from rlcomp.interfaces.task import Example, Task
from rlcomp.seed import new_generator


class Uniform(Component):
    """Draw training prompts uniformly, without replacement within a batch.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts) and ``answer_ends``
    (``[B, W]`` bool) of a new batch.

    Args:
        task: where examples come from; held-out prompts are never drawn.
        tokenizer: measures the prompts once, at construction.
        batch_size: prompts per batch (``B``).
        context_length: tokens the model can hold.
        max_new_tokens: tokens an answer may take.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: a prompt leaves no room for the answer.
    """

    reads = ()
    writes = ("prompt", "answer", "answer_ends")
    fresh = True

    def __init__(
        self,
        *,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt,
        context_length: PositiveInt,
        max_new_tokens: PositiveInt,
    ) -> None:
        super().__init__()
        check_enough(task, batch_size)
        check_prompts_fit(task, tokenizer, context_length, max_new_tokens)
        self.task = task
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.context_length = context_length
        self.max_new_tokens = max_new_tokens
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """A new batch of ``batch_size`` prompts."""
        chosen: dict[int, Example] = {}
        while len(chosen) < self.batch_size:
            index = int(torch.randint(len(self.task), (), generator=self.generator))
            example = self.task.example(index)
            if not example.is_held_out(self.task.held_out):
                chosen.setdefault(index, example)
        return prompt_batch(list(chosen.values()))
