"""SFT batches of demonstrations in shuffled epochs."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import (
    check_demonstrations_fit,
    check_enough,
    demonstrations,
    prompt_batch,
)
from rlcomp.data.sampling import ShuffledEpochs
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Example, Task
from rlcomp.keys import Key
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.rows import demonstration_rows


class Demonstrations(Component):
    """Sampler of SFT batches: demonstrations of the training examples, laid out like rollouts.

    Reads nothing. Writes ``tokens`` (``[B, T]`` int64: prompt, demonstration, EOS),
    ``attention_mask`` and ``response_mask`` (``[B, T]`` bool; the latter covers demonstration and
    EOS, and in a conversation every turn of the assistant), ``prompt``, ``answer`` (``[B, W]``
    uint8 texts) and ``answer_ends`` (``[B, W]`` bool) of a new batch, and ``columns`` where an
    example has any.

    Args:
        task: the task of the examples; each training example comes exactly once per epoch.
        batch_size: demonstrations per batch (``B``); a batch may span two epochs.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: a prompt with its demonstration and EOS is longer than the context.
    """

    reads = ()
    writes: ClassVar[tuple[Key, ...]] = (
        "tokens",
        "attention_mask",
        "response_mask",
        "prompt",
        "answer",
        "answer_ends",
    )
    fresh = True

    def __init__(
        self,
        *,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt = 128,
        context_length: PositiveInt,
        prompt: PromptFormat | None = None,
    ) -> None:
        super().__init__()
        self.prompt = resolve_prompt_format(prompt, tokenizer)
        check_enough(
            task, batch_size, ", or remove the warm start ('~phases.warm_start' '~demonstrations')"
        )
        check_demonstrations_fit(task, tokenizer, context_length, self.prompt)
        self.task = task
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.context_length = context_length
        self.examples = ShuffledEpochs(task, torch.initial_seed())
        self.check_example(task.example(0))

    def check_example(self, example: Example) -> None:
        """Refuse an example without the columns that a subclass reads.

        Called at construction with the task's first example only.
        """

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a new batch of the next ``batch_size`` demonstrations."""
        return self.rows(self.examples.take(self.batch_size))

    def rows(self, examples: list[Example]) -> TensorDict:
        """Return the rows of examples with the entries of their prompts."""
        rows = demonstration_rows(self.tokenizer, demonstrations(self.prompt, examples))
        return rows.update(prompt_batch(examples))

    def run_state(self) -> dict[str, int]:
        """Return the position in the epoch."""
        return self.examples.run_state()

    def load_run_state(self, state: dict[str, int]) -> None:
        """Restore the position in the epoch."""
        self.examples.load_run_state(state)
