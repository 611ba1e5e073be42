"""Batches of whole rankings, in shuffled epochs."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from components.sampler.demonstrations import Demonstrations
from rlcomp.arguments import PositiveInt
from rlcomp.data.examples import check_rows_fit, demonstrations
from rlcomp.data.pairs import ratings
from rlcomp.data.preference_rows import ranked
from rlcomp.errors import DataError
from rlcomp.interfaces.prompt import Demonstration, Prompt
from rlcomp.interfaces.task import Example, Task
from rlcomp.keys import Key


class Rankings(Demonstrations):
    """Sampler of rankings of ``K`` answers, for ``loss=plackett_luce``: K adjacent rows each.

    Reads nothing. Writes what :class:`~components.sampler.demonstrations.Demonstrations` does,
    ``reward``, ``reward_valid`` and ``group_id`` ``[B]`` (one for each ranking); and ``columns``.

    Args:
        task: the task of the rankings, such as ``task=preferences task.ratings=ranking``.
        tokenizer: the policy's tokenizer.
        batch_size: rankings per batch.
        group_size: K, number of answers in a ranking.
        context_length: tokens the model can hold.
        prompt: how prompts become tokens; plain text if not given.

    Raises:
        ConfigError: the task has fewer training examples than ``batch_size``.
        DataError: an example is no ranking of K answers, or is longer than the context.
    """

    writes: ClassVar[tuple[Key, ...]] = (
        *Demonstrations.writes,
        "reward",
        "reward_valid",
        "group_id",
    )
    may_write = ("columns",)

    def __init__(
        self,
        *,
        task: Task,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: PositiveInt = 32,
        group_size: Annotated[int, Ge(2)],
        context_length: PositiveInt,
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(
            task=task,
            tokenizer=tokenizer,
            batch_size=batch_size,
            context_length=context_length,
            prompt=prompt,
        )
        self.group_size = group_size
        check_rows_fit(task, context_length, self.prompt, self._demonstrations)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return a batch of the next ``batch_size`` rankings."""
        examples = self.examples.take(self.batch_size)
        answers = [answer for example in examples for answer in self._answers(example)]
        rows = self.rows(answers)
        rows["reward"] = ratings(answers)
        rows["reward_valid"] = torch.ones(len(answers), dtype=torch.bool)
        rows["group_id"] = torch.arange(len(examples)).repeat_interleave(self.group_size)
        return rows

    def _demonstrations(self, prompt: Prompt, examples: list[Example]) -> list[Demonstration]:
        answers = [answer for example in examples for answer in self._answers(example)]
        return demonstrations(prompt, answers)

    def _answers(self, example: Example) -> list[Example]:
        answers = ranked(example)
        if len(answers) != self.group_size:
            raise DataError(
                f"the example {example.prompt[:60]!r} has {len(answers)} ranked answers, but "
                f"group_size is {self.group_size}: set it to the number that all rankings have, or "
                "delete the row"
            )
        return answers
