"""Training prompts in shuffled epochs."""

from __future__ import annotations

from itertools import islice

import torch

from rlcomp.data.examples import ShuffledEpochs
from rlcomp.data.prompt_sampler import TaskSampler
from rlcomp.interfaces.task import Example


class Epochs(TaskSampler):
    """Sampler of shuffled epochs: each training prompt exactly once per epoch.

    A batch may span two epochs. The place in the epoch is part of a checkpoint.

    Reads, writes and arguments: see :class:`rlcomp.data.prompt_sampler.TaskSampler`.
    """

    def start(self) -> None:
        """Start the first epoch."""
        self.examples = ShuffledEpochs(self.task, torch.initial_seed())

    def take(self, count: int) -> list[tuple[int, Example]]:
        """Return the next examples."""
        return list(islice(self.examples.numbered(), count))

    def run_state(self) -> dict[str, int]:
        """Return the place in the epoch, for a checkpoint."""
        return self.examples.run_state()

    def load_run_state(self, state: dict[str, int]) -> None:
        """Restore the place in the epoch."""
        self.examples.load_run_state(state)
