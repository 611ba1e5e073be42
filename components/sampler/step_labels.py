"""Batches of answers with labelled steps, in shuffled epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict

from components.sampler.demonstrations import Demonstrations
from rlcomp.columns import DESIRABLE
from rlcomp.data.labelled_rows import labelled_steps, step_rows
from rlcomp.interfaces.task import Example
from rlcomp.keys import Key, OwnKey


class StepLabels(Demonstrations):
    """Sampler of answers with a label for each step, for process reward models.

    The answer is the example's demonstration. Its column ``steps`` holds consecutive parts of the
    answer, ``step_labels`` the label of each: true or false, a probability, or null without a
    label. The label is written to the token that completes the step.

    Reads nothing. Writes what :class:`~components.sampler.demonstrations.Demonstrations` does,
    ``step_end`` and ``step_label`` ``[B, T]``, ``group_id`` ``[B]`` (one each); ``reward``
    and ``reward_valid`` ``[B]``, the outcome: the column ``desirable``, or else 1 if no labelled
    step is wrong; and ``columns``.

    Args:
        task: the task of the examples.
        tokenizer: the policy's tokenizer.
        batch_size: answers per batch.
        context_length: tokens the model can hold.
        prompt: prompt format; plain text if not given.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: an example has no labelled steps, or is longer than the context.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "step_label": (
            "B T",
            "float",
            "correctness of the step that ends with the token, from 0 to 1",
            {"example": "probability"},
        ),
    }
    writes: ClassVar[tuple[Key, ...]] = (
        *Demonstrations.writes,
        "step_end",
        "step_label",
        "group_id",
        "reward",
        "reward_valid",
    )
    may_write = ("columns",)

    def check_example(self, example: Example) -> None:
        """Refuse an example without labelled steps."""
        labelled_steps(example)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a new batch of the next ``batch_size`` answers."""
        examples = self.examples.take(self.batch_size)
        rows = step_rows(self.tokenizer, self.prompt, examples)
        rows["group_id"] = torch.arange(len(examples))
        sound = ((rows["step_label"] > 0.5) | ~rows["step_end"]).all(1)
        outcomes = zip(examples, sound.tolist(), strict=True)
        right = [one.columns.get(DESIRABLE, steps) for one, steps in outcomes]
        rows["reward"] = torch.tensor(right).float()
        rows["reward_valid"] = torch.ones(len(examples), dtype=torch.bool)
        return rows
