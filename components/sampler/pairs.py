"""Batches of preference pairs, in shuffled epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonNegativeFloat, PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.data.examples import ShuffledEpochs, check_enough, check_rows_fit
from rlcomp.data.pairs import (
    label_noise,
    pair_demonstrations,
    pair_margins,
    pair_rows,
    pair_weights,
    tied_pairs,
)
from rlcomp.interfaces.prompt import Prompt
from rlcomp.interfaces.task import Task
from rlcomp.keys import Key, OwnKey
from rlcomp.text.prompt import or_text


class Pairs(Component):
    """Pairs of the training examples: row 2k is chosen, row 2k + 1 rejected.

    The demonstration of an example is its chosen answer, its column ``rejected`` the other one;
    columns ``weight``, ``label_noise`` and ``annotator`` say how much its label counts and how
    often it is wrong, ``margin`` by how much a reward model is to tell the two apart, ``tie`` that
    neither is preferred: then which one is called chosen means nothing.

    Reads nothing. Writes ``tokens`` (``[B, T]`` int64: prompt, answer, EOS), ``attention_mask`` and
    ``response_mask`` (``[B, T]`` bool; the latter covers answer and EOS), ``chosen``, ``group_id``
    ``[B]``, ``prompt``, ``answer`` (``[B, W]`` uint8 texts) and ``answer_ends`` (``[B, W]`` bool)
    of a new batch; ``columns``, and ``pair_weight``, ``label_noise``, ``pair_margin`` and
    ``tied`` ``[B]`` where the data or the settings tell them.

    Args:
        task: where examples come from; each training example comes exactly once per epoch.
        tokenizer: the policy's; encodes the texts.
        batch_size: pairs per batch; a batch may span two epochs.
        context_length: tokens the model can hold.
        prompt: how they become tokens; plain text if not given.
        annotator_weight: how much the labels of each annotator count (human and AI labels mixed).
        annotator_noise: how often each annotator is wrong; then every example has an annotator or
            a ``label_noise`` of its own.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: an example has no rejected answer, or is longer than the context.
    """

    reads = ()
    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "pair_weight": ("B", "float", "how much the row's pair counts", {"example": "positive"}),
        "label_noise": ("B", "float", "probability that the label of the row's pair is wrong"),
        "pair_margin": ("B", "float", "by how much the score of the chosen answer is to lead"),
        "tied": ("B", "bool", "neither answer of the row's pair is preferred"),
    }
    writes = (
        "tokens",
        "attention_mask",
        "response_mask",
        "chosen",
        "group_id",
        "prompt",
        "answer",
        "answer_ends",
    )
    may_write = ("columns", "pair_weight", "label_noise", "pair_margin", "tied")
    fresh = True

    def __init__(
        self,
        *,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt = 128,
        context_length: PositiveInt,
        prompt: Prompt | None = None,
        annotator_weight: dict[str, NonNegativeFloat] | None = None,
        annotator_noise: dict[str, Probability] | None = None,
    ) -> None:
        super().__init__()
        self.prompt = or_text(prompt, tokenizer)
        check_enough(task, batch_size)
        check_rows_fit(task, context_length, self.prompt, pair_demonstrations)
        self.task = task
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.context_length = context_length
        self.annotator_weight = annotator_weight or {}
        self.annotator_noise = annotator_noise or {}
        self.examples = ShuffledEpochs(task, torch.initial_seed())

    def forward(self, batch: TensorDict) -> TensorDict:
        """A new batch of the next ``batch_size`` pairs."""
        examples = self.examples.take(self.batch_size)
        rows = pair_rows(self.tokenizer, self.prompt, examples)
        told = {
            "pair_weight": pair_weights(examples, self.annotator_weight),
            "label_noise": label_noise(examples, self.annotator_noise),
            "pair_margin": pair_margins(examples),
            "tied": tied_pairs(examples),
        }
        for key, of_pairs in told.items():
            if of_pairs is not None:
                rows[key] = of_pairs.repeat_interleave(2)
        return rows

    def run_state(self) -> dict[str, int]:
        """The place in the epoch, for a checkpoint."""
        return self.examples.run_state()

    def load_run_state(self, state: dict[str, int]) -> None:
        """Restore the place in the epoch."""
        self.examples.load_run_state(state)
