"""Replay buffer on disk with incremental checkpoints."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tensordict import TensorDict
from torch import Tensor
from torchrl.data import LazyMemmapStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers import RandomSampler

from components.replay.uniform import UniformReplay
from rlcomp.arguments import NonEmptyText, NonNegativeInt, PositiveInt
from rlcomp.checkpoint.state_fields import field
from rlcomp.component import check_arguments
from rlcomp.errors import CheckpointError
from rlcomp.files.atomic_write import atomic_write, sync
from rlcomp.files.digests import file_digest
from rlcomp.keys import nested

_NAME = re.compile(r"rows-(\d{15})-(\d{15})\.safetensors")


class MemoryMappedReplay(UniformReplay):
    """Replay of the last ``capacity`` steps in memory-mapped files, with uniform draws.

    Draws are with replacement. At a checkpoint, the rows since the last one are written to a new
    file (a segment) under ``directory``, and the checkpoint holds the name, size and digest of each
    segment. A resumed run deletes the segments of abandoned continuations. The directory also holds
    the last ``capacity`` overwritten rows, for older checkpoints.

    Args:
        capacity: largest number of rows; a full replay overwrites the oldest.
        directory: directory of the files.
    """

    def __init__(self, *, capacity: PositiveInt = 1000000, directory: NonEmptyText) -> None:
        super().__init__(capacity=capacity)
        check_arguments(type(self), (), {"capacity": capacity, "directory": directory})
        self.directory = Path(directory)
        self.total = self.saved = 0
        # Size in bytes and digest of each segment by file name.
        self.segments: dict[str, tuple[int, str]] = {}
        # Folder of the segments of the checkpoint that this run continues.
        self.source = self.segment_folder
        self.has_files = False

    @property
    def segment_folder(self) -> Path:
        """The directory of the segments."""
        return self.directory / "segments"

    def extend(self, rows: TensorDict) -> None:
        """Store rows ``[R]``; a full replay overwrites the oldest."""
        if not self.has_files:  # create files only here, so that reading a run creates none
            storage = LazyMemmapStorage(
                self.capacity, scratch_dir=str(self.directory / "live"), existsok=True
            )
            self.buffer = TensorDictReplayBuffer(storage=storage, sampler=RandomSampler())
            self.buffer.set_rng(self.generator)
            self.has_files = True
        super().extend(rows)
        self.total += len(rows)

    def run_state(self) -> dict[str, object]:
        """Write the new rows; return the segments, their folder and the number of rows written.

        Raises:
            CheckpointError: the rows cannot be written.
        """
        try:
            self._write_segment()
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"{self.segment_folder}: the rows of the replay cannot be written ({error}): make "
                "the directory writable, or free disk space"
            ) from error
        segments = [[name, size, sha] for name, (size, sha) in sorted(self.segments.items())]
        return {
            "total": self.total,
            "segments": segments,
            "folder": str(self.segment_folder.resolve()),
        }

    def _write_segment(self) -> None:
        """Write the rows since the last segment; delete the segments that no checkpoint needs."""
        if self.total == self.saved:
            return
        first, folder = max(self.saved, self.total - self.capacity), self.segment_folder
        folder.mkdir(parents=True, exist_ok=True)
        self._copy_segments()
        name = f"rows-{first:015d}-{self.total:015d}.safetensors"
        for file in [*folder.iterdir()]:
            if not _NAME.fullmatch(file.name):
                continue
            # The segment belongs to an abandoned continuation, or is too old for any checkpoint.
            start, end = _range(file.name)
            if start >= first or end <= self.total - 2 * self.capacity:
                file.unlink()
        with atomic_write(folder / name) as draft:
            save_file(self._rows(first, self.total), draft)
            sync(draft)
            entry = (draft.stat().st_size, file_digest(draft))
        sync(folder)
        current = {key: value for key, value in self.segments.items() if self._is_current(key)}
        self.segments = {**current, name: entry}
        self.saved = self.total

    def _copy_segments(self) -> None:
        """Copy segments from the run that this run continues."""
        for name in self.segments:
            if self._is_current(name) and not (self.segment_folder / name).is_file():
                shutil.copyfile(self.source / name, self.segment_folder / name)

    def _is_current(self, name: str) -> bool:
        """Return whether the replay has rows of a segment."""
        return _range(name)[1] > self.total - self.capacity

    def _rows(self, first: int, last: int) -> dict[str, Tensor]:
        """Return the rows ``first`` to ``last - 1`` of all rows ever written, as flat tensors."""
        memory = self.rows()
        assert memory is not None
        rows = memory[torch.arange(first, last) % self.capacity]
        # Without torchrl's entry "index", which it writes again when it stores a row.
        flat = rows.exclude("index").flatten_keys(".").to_dict()
        return {key: value.contiguous() for key, value in flat.items()}

    def load_run_state(self, state: dict[str, object]) -> None:
        """Restore the rows from the segments.

        Raises:
            CheckpointError: a segment is missing or damaged, or does not fit the capacity.
        """
        total = field(state, "total", NonNegativeInt)
        segments = _parse_segments(field(state, "segments", list))
        self.source = Path(field(state, "folder", str))
        size = min(total, self.capacity)
        rows = self._read(segments, total, size)
        self.buffer.empty()
        self.total = self.saved = 0
        if rows is not None:
            # The original order, so that the next row overwrites the oldest.
            index = torch.arange(total - size, total) % self.capacity
            self.extend(rows[index.argsort()])
            self.buffer._writer._cursor = total % self.capacity
        self.total = self.saved = total
        self.segments = segments

    def _read(
        self, segments: dict[str, tuple[int, str]], total: int, size: int
    ) -> TensorDict | None:
        """Return the last ``size`` of ``total`` rows in writing order; None if there are none."""
        parts, next_row = [], total - size
        for name, entry in sorted(segments.items()):
            first, last = _range(name)
            if last <= next_row:
                continue
            if first > next_row or last > total:
                break
            # A segment is in this run's folder or in the checkpoint's.
            is_copied = (self.segment_folder / name).is_file()
            folder = self.segment_folder if is_copied else self.source
            segment = _read_segment(folder / name, entry, last - first)
            parts.append(segment[next_row - first :])
            next_row = last
        if next_row != total:
            raise CheckpointError(
                f"the segments of the replay end at row {next_row} of {total}: they do not fit "
                f"capacity={self.capacity}"
            )
        return torch.cat(parts) if parts else None


def _range(name: str) -> tuple[int, int]:
    """Return a segment's first row, and the row after its last, among all rows ever written."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1]), int(match[2])


def _parse_segments(entries: list[object]) -> dict[str, tuple[int, str]]:
    """Return the size and the digest of each segment by name, checked."""
    segments: dict[str, tuple[int, str]] = {}
    for entry in entries:
        name, size, sha = entry if isinstance(entry, list) and len(entry) == 3 else (0, 0, 0)
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise CheckpointError(f"{entry!r} is no segment of a replay: [name, size, digest]")
        if type(size) is not int or not isinstance(sha, str):
            raise CheckpointError(
                f"{name} has size {size!r} and digest {sha!r}: must be an integer and a text"
            )
        segments[name] = (size, sha)
    return segments


def _read_segment(file: Path, entry: tuple[int, str], rows: int) -> TensorDict:
    if not file.is_file() or file.is_symlink():
        raise CheckpointError(f"{file}, a segment of the replay, is missing")
    if (file.stat().st_size, file_digest(file)) != entry:
        raise CheckpointError(
            f"{file} has changed since it was written: its size or digest differs"
        )
    try:
        with safe_open(file, framework="pt") as tensors:
            flat = {nested(key): tensors.get_tensor(key) for key in tensors.keys()}
        return TensorDict(flat, batch_size=[rows])
    except (SafetensorError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{file} does not hold the rows of a replay: {error}") from error
