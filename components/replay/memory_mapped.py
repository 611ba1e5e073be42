"""Replay buffer on disk, whose checkpoints write only what is new."""

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
    """The last ``capacity`` steps in memory-mapped files, drawn uniformly with replacement.

    A checkpoint does not hold its rows: those written since the last one go to a new file (a
    segment) under ``directory``, and the checkpoint names the segments with size and digest. What
    a resumed run has overtaken is deleted; of rows that were overwritten as many are kept as the
    replay holds, for older checkpoints.

    Args:
        capacity: rows it holds; the oldest are overwritten.
        directory: of its files.
    """

    def __init__(self, *, capacity: PositiveInt = 1000000, directory: NonEmptyText) -> None:
        super().__init__(capacity=capacity)
        check_arguments(type(self), (), {"capacity": capacity, "directory": directory})
        self.directory = Path(directory)
        self.total = self.saved = 0
        self.segments: dict[str, tuple[int, str]] = {}
        self.source = self.segment_folder
        self.live = False

    @property
    def segment_folder(self) -> Path:
        """Where the segments are."""
        return self.directory / "segments"

    def extend(self, rows: TensorDict) -> None:
        """Store rows ``[R]``, over the oldest where it is full."""
        if not self.live:  # only now: whoever looks at a run makes no files
            storage = LazyMemmapStorage(
                self.capacity, scratch_dir=str(self.directory / "live"), existsok=True
            )
            self.buffer = TensorDictReplayBuffer(storage=storage, sampler=RandomSampler())
            self.buffer.set_rng(self.generator)
            self.live = True
        super().extend(rows)
        self.total += len(rows)

    def run_state(self) -> dict[str, object]:
        """Write the rows that are new; name all segments that hold rows of the replay.

        Raises:
            CheckpointError: they cannot be written.
        """
        try:
            self._write()
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"{self.segment_folder}: the rows of the replay cannot be written ({error}): is "
                "the directory writable, the disk full?"
            ) from error
        named = [[name, size, sha] for name, (size, sha) in sorted(self.segments.items())]
        return {
            "total": self.total,
            "segments": named,
            "folder": str(self.segment_folder.resolve()),
        }

    def _write(self) -> None:
        if self.total == self.saved:
            return
        first, folder = max(self.saved, self.total - self.capacity), self.segment_folder
        folder.mkdir(parents=True, exist_ok=True)
        self._bring()
        name = f"rows-{first:015d}-{self.total:015d}.safetensors"
        for file in self._files(folder):
            # Of a continuation that was abandoned, or too old for any checkpoint.
            start, end = _range(file.name)
            if start >= first or end <= self.total - 2 * self.capacity:
                file.unlink()
        with atomic_write(folder / name) as draft:
            save_file(self._rows(first, self.total), draft)
            sync(draft)
            entry = (draft.stat().st_size, file_digest(draft))
        sync(folder)
        held = {key: value for key, value in self.segments.items() if self._holds(key)}
        self.segments = {**held, name: entry}
        self.saved = self.total

    def _bring(self) -> None:
        """Copy segments that lie with the run that this one goes on from."""
        for name in self.segments:
            if self._holds(name) and not (self.segment_folder / name).is_file():
                shutil.copyfile(self.source / name, self.segment_folder / name)
        self.source = self.segment_folder

    def _holds(self, name: str) -> bool:
        return _range(name)[1] > self.total - self.capacity

    def _rows(self, first: int, last: int) -> dict[str, Tensor]:
        """The rows of a range of all that were written, as flat tensors."""
        stored = self.stored()
        assert stored is not None
        rows = stored[torch.arange(first, last) % self.capacity]
        # torchrl writes the place of each row beside it, anew wherever it is stored.
        flat = rows.exclude("index").flatten_keys(".").to_dict()
        return {key: value.contiguous() for key, value in flat.items()}

    @staticmethod
    def _files(folder: Path) -> list[Path]:
        return [file for file in folder.iterdir() if _NAME.fullmatch(file.name)]

    def load_run_state(self, state: dict[str, object]) -> None:
        """Restore the rows from the segments.

        Raises:
            CheckpointError: a segment is missing or damaged, or they are not the rows of such a
                replay.
        """
        total = field(state, "total", NonNegativeInt)
        segments = _checked(field(state, "segments", list))
        folder = Path(field(state, "folder", str))
        held = min(total, self.capacity)
        rows = self._read(segments, folder, total, held)
        self.buffer.empty()
        self.total = self.saved = 0
        if rows is not None:
            # By their places, so that the next row comes over the oldest.
            place = torch.arange(total - held, total) % self.capacity
            self.extend(rows[place.argsort()])
            self.buffer._writer._cursor = total % self.capacity
        self.total = self.saved = total
        self.segments = segments

    def _read(
        self, segments: dict[str, tuple[int, str]], folder: Path, total: int, held: int
    ) -> TensorDict | None:
        """The last ``held`` rows, in the order in which they were written."""
        found, at = [], total - held
        for name, entry in sorted(segments.items()):
            first, last = _range(name)
            if last <= at:
                continue
            if first > at or last > total:
                break
            found.append(_segment(self._file(name, folder), entry, last - first)[at - first :])
            at = last
        if at != total:
            raise CheckpointError(
                f"the segments of the replay end at row {at} of {total}: they are not those of "
                f"capacity={self.capacity}"
            )
        return torch.cat(found) if found else None

    def _file(self, name: str, folder: Path) -> Path:
        """A segment: with this run, or with the one that the checkpoint is of."""
        own = self.segment_folder / name
        self.source = self.segment_folder if own.is_file() else folder
        return own if own.is_file() else folder / name


def _range(name: str) -> tuple[int, int]:
    """The rows of a segment, as they were counted from the beginning."""
    found = _NAME.fullmatch(name)
    assert found is not None
    return int(found[1]), int(found[2])


def _checked(listed: list[object]) -> dict[str, tuple[int, str]]:
    """Size and digest of each segment by its name."""
    found: dict[str, tuple[int, str]] = {}
    for entry in listed:
        name, size, sha = entry if isinstance(entry, list) and len(entry) == 3 else (0, 0, 0)
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise CheckpointError(f"{entry!r} is no segment of a replay: [name, size, digest]")
        if type(size) is not int or not isinstance(sha, str):
            raise CheckpointError(f"{name} has size {size!r} and digest {sha!r}, which are none")
        found[name] = (size, sha)
    return found


def _segment(file: Path, entry: tuple[int, str], rows: int) -> TensorDict:
    if not file.is_file() or file.is_symlink():
        raise CheckpointError(f"{file}, a segment of the replay, is missing")
    if (file.stat().st_size, file_digest(file)) != entry:
        raise CheckpointError(f"{file} is not what was written: size or checksum differ")
    try:
        with safe_open(file, framework="pt") as opened:
            flat = {nested(key): opened.get_tensor(key) for key in opened.keys()}
        return TensorDict(flat, batch_size=[rows])
    except (SafetensorError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{file} has not the rows of a replay: {error}") from error
