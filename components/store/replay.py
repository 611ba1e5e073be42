"""Replay of collected answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import ClassVar

import torch
from tensordict import TensorDict

from components.store.collected import CollectedAnswers, CollectedPairs
from rlcomp.arguments import PositiveInt
from rlcomp.batch import trim
from rlcomp.checkpoint.state_fields import count_field, seed_field
from rlcomp.component import Component
from rlcomp.data.permutation import permutation
from rlcomp.errors import NoRows
from rlcomp.keys import Key, OwnKey


class AnswerReplay(Component):
    """Sampler of rows that an earlier phase has collected, in shuffled epochs.

    Reads nothing. Writes the entries that
    :class:`~components.store.collected.CollectedAnswers` keeps, as a new batch of ``batch_size``
    rows. A batch may span two epochs, and repeats rows if there are fewer.

    Args:
        store: the store of the rows.
        batch_size: rows per batch (``B``).

    Raises:
        NoRows: the store is empty.
    """

    reads = ()
    writes: ClassVar[tuple[str, ...]] = (*CollectedAnswers.reads,)
    may_write: ClassVar[tuple[str, ...]] = (*CollectedAnswers.optional,)
    fresh = True
    earlier: ClassVar[tuple[str, ...]] = ("store",)

    store: CollectedAnswers

    def __init__(self, *, store: CollectedAnswers, batch_size: PositiveInt = 128) -> None:
        super().__init__()
        # Not a submodule: a phase that only reads a store must not empty it.
        object.__setattr__(self, "store", store)
        self.batch_size = batch_size
        self.seed, self.epoch, self.cursor = torch.initial_seed(), 0, 0

    def begin_phase(self) -> None:
        """Start an epoch."""
        self.epoch, self.cursor = self.epoch + 1, 0

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the next rows."""
        if not len(self.store):
            raise NoRows(
                f"AnswerReplay: there are no rows to draw: the store kept none of the "
                f"{self.store.shown} rows that it was shown (choose is {self.store.choose!r}); let "
                "an earlier phase fill it, for more steps, or choose others"
            )
        rows, together = self.store.rows(), self.store.unit_rows
        units = islice(self._places(rows.shape[0] // together), self.batch_size)
        places = [unit * together + row for unit in units for row in range(together)]
        return trim(rows[torch.tensor(places)])

    def _places(self, length: int) -> Iterator[int]:
        """Yield places without end: the rest of this epoch, then the next epochs."""
        while True:
            order = permutation(length, self.seed, f"epoch {self.epoch}")
            for place in islice(order, self.cursor, None):
                self.cursor += 1
                yield place
            self.epoch, self.cursor = self.epoch + 1, 0

    def run_state(self) -> dict[str, int]:
        """Return the place in the epochs."""
        return {"seed": self.seed, "epoch": self.epoch, "cursor": self.cursor}

    def load_run_state(self, state: dict[str, int]) -> None:
        """Continue exactly from a :meth:`run_state`.

        Raises:
            CheckpointError: the state is malformed.
        """
        self.seed = seed_field(state)
        self.epoch, self.cursor = count_field(state, "epoch"), count_field(state, "cursor")


class PairReplay(AnswerReplay):
    """Sampler of pairs that an earlier phase has collected, in shuffled epochs.

    Reads nothing. Writes what :class:`~components.store.collected.CollectedPairs` keeps, as a
    new batch of ``2 * batch_size`` rows: 2k and 2k + 1 are a pair.

    Args:
        store: the store of the pairs.
        batch_size: pairs per batch.

    Raises:
        NoRows: the store is empty.
    """

    keys: ClassVar[Mapping[Key, OwnKey]] = {
        "label_noise": ("B", "float", "probability that the label of the row's pair is wrong"),
    }
    writes: ClassVar[tuple[str, ...]] = (*CollectedPairs.reads,)
    may_write: ClassVar[tuple[str, ...]] = (*CollectedPairs.optional,)

    def __init__(self, *, store: CollectedPairs, batch_size: PositiveInt = 64) -> None:
        super().__init__(store=store, batch_size=batch_size)
