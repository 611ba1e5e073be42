"""Sampling of training examples without replacement, in a new order in each epoch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rlcomp.arguments import NonNegativeInt
from rlcomp.checkpoint.state_fields import count_field, field, seed_field
from rlcomp.data.examples import indexed_examples
from rlcomp.data.task import permutation
from rlcomp.interfaces.task import Example, Task


class ShuffledEpochs:
    """Sampler without replacement: each epoch visits every training example in a new order.

    Args:
        task: where the examples come from.
        seed: fixes the order of every epoch.
    """

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        self._start(seed, epoch=0, cursor=0)

    def _start(self, seed: int, epoch: int, cursor: int) -> None:
        self.seed, self.epoch, self.cursor = seed, epoch, cursor
        order = permutation(len(self.task), seed, f"epoch {epoch}")
        self._order = islice(order, cursor, None)

    def _indices(self) -> Iterator[int]:
        """Yield indices without end: the rest of this epoch, then the next epochs."""
        while True:
            for index in self._order:
                self.cursor += 1
                yield index
            self._start(self.seed, self.epoch + 1, 0)

    def take(self, count: int) -> list[Example]:
        """Return the next examples; at the end of an epoch continue with the next one.

        The task must have training examples (:func:`rlcomp.data.examples.check_enough`).
        """
        return [example for _, example in islice(self.numbered(), count)]

    def numbered(self) -> Iterator[tuple[int, Example]]:
        """Yield index and example without end."""
        return indexed_examples(self.task, self._indices())

    def run_state(self) -> dict[str, int]:
        """Return the position in the epochs; JSON-serialisable."""
        return {"seed": self.seed, "epoch": self.epoch, "cursor": self.cursor}

    def load_run_state(self, state: dict[str, int]) -> None:
        """Continue exactly where :meth:`run_state` was taken.

        Raises:
            CheckpointError: the state is no position in this task.
        """
        seed, epoch = seed_field(state), count_field(state, "epoch")
        self._start(seed, epoch, field(state, "cursor", NonNegativeInt, below=len(self.task) + 1))
