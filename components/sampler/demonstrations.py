"""SFT batches: demonstrations in shuffled epochs."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import (
    ShuffledEpochs,
    check_demonstrations_fit,
    check_enough,
    prompt_batch,
)
from rlcomp.interfaces.task import Task
from rlcomp.text.rows import encode_rows


class Demonstrations(Component):
    """SFT batches: demonstrations of the training examples, laid out like rollouts.

    Reads nothing. Writes ``tokens`` (``[B, T]`` int64: prompt, demonstration, EOS),
    ``attention_mask`` and ``response_mask`` (``[B, T]`` bool; the latter covers demonstration and
    EOS), ``prompt``, ``answer`` (``[B, W]`` uint8 texts) and ``answer_ends`` (``[B, W]`` bool) of a
    new batch.

    Args:
        task: where examples come from; each training example comes exactly once per epoch.
        tokenizer: the policy's; encodes the texts.
        batch_size: demonstrations per batch (``B``); a batch may span two epochs.
        context_length: tokens the model can hold.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: a prompt with its demonstration and EOS is longer than the context.
    """

    reads = ()
    writes = ("tokens", "attention_mask", "response_mask", "prompt", "answer", "answer_ends")
    fresh = True

    def __init__(
        self,
        *,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt,
        context_length: PositiveInt,
    ) -> None:
        super().__init__()
        check_enough(task, batch_size)
        check_demonstrations_fit(task, tokenizer, context_length)
        self.task = task
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.context_length = context_length
        self.examples = ShuffledEpochs(task, torch.initial_seed())

    def forward(self, batch: TensorDict) -> TensorDict:
        """A new batch of the next ``batch_size`` demonstrations."""
        examples = self.examples.take(self.batch_size)
        rows = encode_rows(
            self.tokenizer,
            [example.prompt for example in examples],
            [example.demonstration for example in examples],
        )
        return rows.update(prompt_batch(examples))

    def run_state(self) -> dict[str, int]:
        """The place in the epoch, for a checkpoint."""
        return self.examples.run_state()

    def load_run_state(self, state: dict[str, int]) -> None:
        """Restore the place in the epoch."""
        self.examples.load_run_state(state)
