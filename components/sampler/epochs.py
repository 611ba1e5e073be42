"""Training prompts in shuffled epochs."""

from __future__ import annotations

from itertools import islice

import torch

from rlcomp.data.examples import ShuffledEpochs
from rlcomp.data.prompt_sampler import TaskSampler
from rlcomp.interfaces.task import Example


class Epochs(TaskSampler):
    """Go through the training prompts in shuffled epochs: each exactly once per epoch.

    A batch may span two epochs. The place in the epoch is part of a checkpoint.

    Reads, writes and arguments: see :class:`rlcomp.data.prompt_sampler.TaskSampler`.
    """

    def start(self) -> None:
        """Begin the first epoch."""
        self.examples = ShuffledEpochs(self.task, torch.initial_seed())

    def take(self, count: int) -> list[tuple[int, Example]]:
        """The next examples."""
        return list(islice(self.examples.numbered(), count))

    def run_state(self) -> dict[str, int]:
        """The place in the epoch, for a checkpoint."""
        return self.examples.run_state()

    def load_run_state(self, state: dict[str, int]) -> None:
        """Restore the place in the epoch."""
        self.examples.load_run_state(state)
