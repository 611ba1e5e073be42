"""Samplers of prompts, without a curriculum."""

from __future__ import annotations

from itertools import islice

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.data.sampling import ShuffledEpochs, TaskSampler
from rlcomp.interfaces.stages import HasModes
from rlcomp.interfaces.task import Example
from rlcomp.seed import new_generator


class Epochs(TaskSampler):
    """Sampler of shuffled epochs: each training prompt exactly once per epoch.

    A batch may span two epochs. Reads, writes and arguments: see
    :class:`rlcomp.data.sampling.TaskSampler`.
    """

    def start(self) -> None:
        """Start the first epoch."""
        self.examples = ShuffledEpochs(self.task, torch.initial_seed())

    def take(self, count: int) -> list[tuple[int, Example]]:
        """Return the next examples."""
        return list(islice(self.examples.indexed(), count))

    def run_state(self) -> dict[str, int]:
        """Return the position in the epoch."""
        return self.examples.run_state()

    def load_run_state(self, state: dict[str, int]) -> None:
        """Restore the position in the epoch."""
        self.examples.load_run_state(state)


class Uniform(TaskSampler):
    """Sampler of uniform training prompts, without replacement within a batch.

    Reads, writes and arguments: see :class:`rlcomp.data.sampling.TaskSampler`.
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


class Points(Component):
    """Sampler of points of a distribution.

    Reads nothing. Writes ``sample`` ``[B, D]``.

    Args:
        distribution: the distribution to draw from.
        batch_size: points per batch (``B``).
    """

    keys = {"sample": ("B D", "float", "point of the data, or end point of a flow")}
    writes = ("sample",)
    fresh = True

    def __init__(self, *, distribution: HasModes, batch_size: PositiveInt = 256) -> None:
        super().__init__()
        self.distribution = distribution
        self.batch_size = batch_size
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Draw the points."""
        points = self.distribution.draw(self.batch_size, self.generator)
        return TensorDict({"sample": points}, batch_size=[self.batch_size])
