"""Batches of preference pairs, in shuffled epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonNegativeFloat, PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.data.examples import check_enough, check_rows_fit
from rlcomp.data.pairs import (
    label_noise,
    pair_demonstrations,
    pair_margins,
    pair_rows,
    pair_weights,
    tied_pairs,
)
from rlcomp.data.sampling import ShuffledEpochs
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.interfaces.task import Task
from rlcomp.keys import Key, OwnKey
from rlcomp.text.prompt import resolve_prompt_format


class Pairs(Component):
    """Sampler of preference pairs: row 2k is chosen, row 2k + 1 rejected.

    The demonstration of an example is its chosen answer, its column ``rejected`` the other one.
    The columns ``weight``, ``label_noise`` and ``annotator`` give the weight of the label and the
    probability that the label is wrong. The column ``margin`` gives the margin of a reward model.
    If the column ``tie`` is true, neither answer is preferred, and the order has no meaning.

    Reads nothing. Writes ``tokens`` (``[B, T]`` int64: prompt, answer, EOS), ``attention_mask`` and
    ``response_mask`` (``[B, T]`` bool; the latter covers answer and EOS), ``chosen``, ``group_id``
    ``[B]``, ``prompt``, ``answer`` (``[B, W]`` uint8 texts) and ``answer_ends`` (``[B, W]`` bool)
    of a new batch; ``columns``, and ``pair_weight``, ``label_noise``, ``pair_margin`` and
    ``tied`` ``[B]`` if the data or the settings give them.

    Args:
        task: the task of the examples; each training example comes exactly once per epoch.
        batch_size: pairs per batch; a batch may span two epochs.
        prompt: prompt format; None: plain text.
        annotator_weight: weight of each annotator's labels (human and AI labels mixed).
        annotator_noise: probability that a label of each annotator is wrong; if given, every
            example needs an annotator or its own ``label_noise``.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: an example has no rejected answer, is longer than the context, or (when drawn)
            has an annotator without a weight or a noise.
    """

    reads = ()
    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "pair_weight": ("B", "float", "weight of the row's pair", {"example": "positive"}),
        "label_noise": ("B", "float", "probability that the label of the row's pair is wrong"),
        "pair_margin": ("B", "float", "target margin of the pair's scores"),
        "tied": ("B", "bool", "the row's pair is a tie"),
    }
    writes = (
        *("tokens", "attention_mask", "response_mask", "chosen", "group_id"),
        *("prompt", "answer", "answer_ends"),
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
        prompt: PromptFormat | None = None,
        annotator_weight: dict[str, NonNegativeFloat] | None = None,
        annotator_noise: dict[str, Probability] | None = None,
    ) -> None:
        super().__init__()
        self.prompt = resolve_prompt_format(prompt, tokenizer)
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
        """Return a new batch of the next ``batch_size`` pairs."""
        examples = self.examples.take(self.batch_size)
        rows = pair_rows(self.tokenizer, self.prompt, examples)
        entries = {
            "pair_weight": pair_weights(examples, self.annotator_weight),
            "label_noise": label_noise(examples, self.annotator_noise),
            "pair_margin": pair_margins(examples),
            "tied": tied_pairs(examples),
        }
        for key, entry in entries.items():
            if entry is not None:
                rows[key] = entry.repeat_interleave(2)
        return rows

    def run_state(self) -> dict[str, int]:
        """Return the position in the epoch."""
        return self.examples.run_state()

    def load_run_state(self, state: dict[str, int]) -> None:
        """Restore the position in the epoch."""
        self.examples.load_run_state(state)
