"""Demonstrations to imitate, in shuffled epochs."""

from __future__ import annotations

from typing import Protocol

import torch
from tensordict import TensorDict

from rlcomp.check import PositiveInt
from rlcomp.component import Component
from rlcomp.data import Task
from rlcomp.sampling import ShuffledEpochs, check_enough, prompt_batch


class Encoder(Protocol):
    """What turns texts into rows of tokens: any language model of :mod:`rlcomp.model`."""

    def encode(self, prompts: list[str], responses: list[str]) -> TensorDict:
        """Tokens of prompt, response and EOS, with both masks."""
        ...


class Demonstrations(Component):
    """The demonstrations of the training examples as if the policy had sampled them.

    Reads nothing. Writes ``tokens`` (``[B, T]`` int64: prompt, demonstration, EOS),
    ``attention_mask`` and ``response_mask`` (``[B, T]`` bool; the latter covers demonstration and
    EOS), ``prompt`` and ``answer`` (``[B, W]`` uint8 texts) of a new batch.

    Args:
        task: where examples come from; each training example comes exactly once per epoch.
        policy: encodes the texts; its weights are not used.
        batch_size: demonstrations per batch (``B``); a batch may span two epochs.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
    """

    reads = ()
    writes = ("tokens", "attention_mask", "response_mask", "prompt", "answer")
    fresh = True

    def __init__(self, *, task: Task, policy: Encoder, batch_size: PositiveInt) -> None:
        super().__init__()
        check_enough(task, batch_size)
        self.task = task
        self.policy = policy
        self.batch_size = batch_size
        self.examples = ShuffledEpochs(task, torch.initial_seed())

    def forward(self, batch: TensorDict) -> TensorDict:
        """A new batch of the next ``batch_size`` demonstrations."""
        examples = self.examples.take(self.batch_size)
        rows = self.policy.encode(
            [example.prompt for example in examples],
            [example.demonstration for example in examples],
        )
        device = rows["tokens"].device
        texts = {key: value.to(device) for key, value in prompt_batch(examples).items()}
        return rows.select("tokens", "attention_mask", "response_mask").update(texts)

    def run_state(self) -> dict[str, int]:
        """The place in the epoch, for a checkpoint."""
        return self.examples.run_state()

    def load_run_state(self, state: dict[str, int]) -> None:
        """Go on exactly where the state was taken."""
        self.examples.load_run_state(state)
