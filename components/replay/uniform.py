"""Replay buffer with uniform draws."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from tensordict import TensorDict
from torch import Tensor, nn
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers import RandomSampler

from rlcomp.arguments import NonNegativeInt, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import check_arguments
from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.keys import nested
from rlcomp.seed import new_generator


class UniformReplay(nn.Module):
    """Replay of the last ``capacity`` steps with uniform draws, on torchrl's buffer.

    Draws are with replacement. A checkpoint holds the rows and the position of the next row
    (:meth:`run_state`), and the generator, as that of every node
    (:mod:`rlcomp.checkpoint.state`), so that a resumed run draws the same rows. (torchrl's
    ``state_dict`` loses the storage's batch size.)

    Args:
        capacity: largest number of rows; a full replay overwrites the oldest.

    Source:
        Lin 1992; Mnih et al. 2015, doi:10.1038/nature14236.
    """

    def __init__(self, *, capacity: PositiveInt = 1000000) -> None:
        super().__init__()
        check_arguments(UniformReplay, (), {"capacity": capacity})
        self.capacity = capacity
        self.generator = new_generator()
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(capacity), sampler=RandomSampler()
        )
        self.buffer.set_rng(self.generator)

    def __len__(self) -> int:
        """Return the number of stored rows."""
        return len(self.buffer)

    def extend(self, rows: TensorDict) -> None:
        """Store rows ``[R]``; a full replay overwrites the oldest."""
        with _silence_torchrl():
            self.buffer.extend(rows)

    def sample(self, rows: int) -> TensorDict:
        """Draw a number of rows with replacement and return them."""
        sample: TensorDict = self.buffer.sample(rows)
        return sample

    def check_draws(self, rows: int) -> None:
        """Refuse a batch that is larger than the capacity.

        Raises:
            ConfigError: ``rows``, the size of the batch, is above the capacity.
        """
        if rows > self.capacity:
            raise ConfigError(
                f"replay.capacity is {self.capacity}, but {rows} rows are drawn at a time: raise "
                "replay.capacity or lower batch_size"
            )

    @property
    def write_count(self) -> int:
        """The number of rows that this object has written."""
        count: int = self.buffer.write_count
        return count

    @property
    def cursor(self) -> int:
        """The position of the next row."""
        position: int = self.buffer._writer._cursor
        return position

    def rows(self) -> TensorDict | None:
        """Return the rows in the order of the storage; None if there are none."""
        return self.buffer[: len(self)] if len(self) else None

    def run_state(self) -> dict[str, object]:
        """Return the rows as flat tensors, and the position of the next row."""
        rows = self.rows()
        flat = {} if rows is None else rows.flatten_keys(".").to_dict()
        # Sorted, because a restored replay has the same entries in another order.
        return {"rows": dict(sorted(flat.items())), "cursor": self.cursor}

    def load_run_state(self, state: dict[str, object]) -> None:
        """Restore the rows and the position of the next row.

        Raises:
            CheckpointError: the rows do not fit the replay.
        """
        entries: dict[str, Tensor] = field(state, "rows", dict)
        if not all(isinstance(entry, Tensor) and entry.dim() for entry in entries.values()):
            raise CheckpointError("the rows of a replay are tensors with a row for each step")
        cursor = field(state, "cursor", NonNegativeInt)
        sizes = {entry.shape[:1] for entry in entries.values()}
        size = next(iter(sizes))[0] if sizes else 0
        if (
            len(sizes) > 1
            or size > self.capacity
            or cursor >= self.capacity
            or (size < self.capacity and cursor != size)
        ):
            raise CheckpointError(
                f"{size} rows with the next row at {cursor} do not fit capacity={self.capacity}"
            )
        self.buffer.empty()
        if entries:
            rows = {nested(key): entry for key, entry in entries.items()}
            self.extend(TensorDict(rows, batch_size=[size]))
        self.buffer._writer._cursor = cursor


@contextlib.contextmanager
def _silence_torchrl() -> Iterator[None]:
    """Silence torchrl's message about allocating the storage."""
    logger = logging.getLogger("torchrl")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
