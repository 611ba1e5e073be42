"""Training prompts in shuffled epochs."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import ShuffledEpochs, check_enough, check_prompts_fit, prompt_batch
from rlcomp.interfaces.task import Task


class Epochs(Component):
    """Go through the training prompts in shuffled epochs: each exactly once per epoch.

    A batch may span two epochs. The place in the epoch is part of a checkpoint.

    Reads nothing. Writes ``prompt``, ``answer`` (``[B, W]`` uint8 texts) and ``answer_ends``
    (``[B, W]`` bool) of a new batch.

    Args:
        task: where examples come from; held-out prompts are left out.
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
        self.examples = ShuffledEpochs(task, torch.initial_seed())

    def forward(self, batch: TensorDict) -> TensorDict:
        """A new batch of the next ``batch_size`` prompts."""
        return prompt_batch(self.examples.take(self.batch_size))

    def run_state(self) -> dict[str, int]:
        """The place in the epoch, for a checkpoint."""
        return self.examples.run_state()

    def load_run_state(self, state: dict[str, int]) -> None:
        """Restore the place in the epoch."""
        self.examples.load_run_state(state)
