"""Batches of collected pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from components.store.collected_pairs import CollectedPairs
from components.store.replay import Replay
from rlcomp.arguments import PositiveInt
from rlcomp.keys import Key, OwnKey


class ReplayPairs(Replay):
    """Sampler of pairs that an earlier phase has collected, in shuffled epochs.

    Reads nothing. Writes what :class:`~components.store.collected_pairs.CollectedPairs` keeps, as a
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
