"""Uniform sampling of training prompts."""

from __future__ import annotations

import torch

from rlcomp.data.prompt_sampler import TaskSampler
from rlcomp.interfaces.task import Example
from rlcomp.seed import new_generator


class Uniform(TaskSampler):
    """Sampler of uniform training prompts, without replacement within a batch.

    Reads, writes and arguments: see :class:`rlcomp.data.prompt_sampler.TaskSampler`.
    """

    def start(self) -> None:
        """Seed the generator."""
        self.generator = new_generator()

    def take(self, count: int) -> list[tuple[int, Example]]:
        """Draw examples."""
        chosen: dict[int, Example] = {}
        while len(chosen) < count:
            index = int(torch.randint(len(self.task), (), generator=self.generator))
            example = self.task.example(index)
            if not example.is_held_out(self.task.held_out):
                chosen.setdefault(index, example)
        return list(chosen.items())
