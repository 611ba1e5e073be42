"""SHA-256 digests of files: of a growing file with marks, and of a run's input files."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from os import stat_result
from pathlib import Path
from typing import IO

from rlcomp.errors import CheckpointError

# A size of the file in bytes, and the SHA-256 of all bytes before it.
Mark = tuple[int, str]
# Limit of marks per file: each checkpoint stores them all.
MAX_MARKS = 64
# Bytes per read.
_BLOCK = 1 << 20


class RunningDigest:
    """Digest of a growing file; appending does not read the file.

    Attributes:
        size: bytes of the file.
        marks: one for each append, the last at ``size``. Beyond 64 marks, the mark with the fewest
            bytes around it is dropped.
    """

    def __init__(self) -> None:
        self.size = 0
        self.marks: list[Mark] = []
        self._sum = hashlib.sha256()

    def append(self, data: bytes) -> None:
        """Add bytes, and a mark behind them."""
        self._add(data)
        self.mark()

    def mark(self) -> None:
        """Add a mark at the current size, unless it has one."""
        if self.size and (not self.marks or self.marks[-1][0] < self.size):
            self.marks.append((self.size, self.hexdigest()))
        if len(self.marks) > MAX_MARKS:
            ends = [0, *(size for size, _ in self.marks)]
            gaps = [after - before for before, after in zip(ends, ends[2:], strict=False)]
            del self.marks[gaps.index(min(gaps))]

    def hexdigest(self) -> str:
        """Return the SHA-256 of all bytes, in hexadecimal."""
        return self._sum.hexdigest()

    def _add(self, data: bytes) -> None:
        self._sum.update(data)
        self.size += len(data)

    def read(self, stream: IO[bytes], end: int) -> int:
        """Add bytes of a stream until ``size`` is ``end``, or the stream ends.

        Returns:
            The number of line feeds in the added bytes.
        """
        lines = 0
        while self.size < end and (block := stream.read(min(_BLOCK, end - self.size))):
            self._add(block)
            lines += block.count(b"\n")
        return lines


def read_digest(file: Path, size: int, marks: Iterable[Mark] = ()) -> RunningDigest:
    """Return the digest of the first ``size`` bytes of a file, after comparing it with marks.

    Args:
        file: must exist if ``size`` is not 0.
        size: number of bytes, at most the size of the file.
        marks: marks that were recorded while the file was written, the last at ``size``; empty for
            no comparison.

    Raises:
        CheckpointError: the file was changed; the message names the first lines that differ, and
            their bytes.
    """
    digest, lines = RunningDigest(), 0
    if not size:
        return digest
    with file.open("rb") as stream:
        sections: list[tuple[int, str | None]] = [*marks] or [(size, None)]
        for end, expected in sections:
            start, first = digest.size, lines + 1
            lines += digest.read(stream, end)
            if expected not in (None, digest.hexdigest()):
                last = max(first, lines)
                place = f"line {first}" if first == last else f"lines {first} to {last}"
                raise CheckpointError(
                    f"{file}, {place} (bytes {start:,} to {end:,}), is not what the run wrote"
                )
            digest.mark()
    # A run that continues has the same marks as one that never stopped.
    digest.marks = [*marks] or digest.marks
    return digest


# Files, and digests, by name in the config and by path.
Files = Mapping[str, Mapping[str, Path]]
Digests = Mapping[str, Mapping[str, str]]

# In bytes: a file of at least this size is not read again if it is unchanged.
LARGE = 64 << 20
# Resolution of file systems' clocks: two changes within it may have the same time.
_CLOCK_NANOSECONDS = 2 * 10**9
_THREADS = 4
_UNREADABLE = "unreadable"


def input_digests(files: Files, known: Digests | None = None) -> dict[str, dict[str, str]]:
    """Return the SHA-256 of every file, grouped like the files.

    The digest of a file of at least 64 MiB is followed by a space and the identity of the file:
    device, inode, size, mtime and ctime, in nanoseconds. If ``known`` has the same identity, its
    digest is returned, and the file is not read. No program can set the ctime: a file that was
    written to, replaced or copied is read again, even with its old mtime. A digest has no identity
    if the file changed within the last two seconds, or while it was read.

    Args:
        files: the files.
        known: an earlier result.

    Returns:
        The digests; ``unreadable`` for a file that cannot be read.
    """
    before = {file: text for group in (known or {}).values() for file, text in group.items()}
    paths = {file: path for group in files.values() for file, path in group.items()}
    with ThreadPoolExecutor(_THREADS) as threads:
        values = threads.map(lambda file: _entry(paths[file], before.get(file, "")), paths)
        entries = dict(zip(paths, values, strict=True))
    return {name: {file: entries[file] for file in group} for name, group in files.items()}


def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def digest_changes(then: Digests, now: Digests) -> Iterator[str]:
    """Describe each file that was changed, added or deleted.

    A name that only one of the two has is left out: the config has changed.

    Examples:
        >>> then = {"data": {"data/a": "1" * 64, "data/b": "2" * 64}}
        >>> now = {"data": {"data/a": "3" * 64, "data/c": "2" * 64}}
        >>> [*digest_changes(then, now)]
        ['data/a was changed', 'data/b is gone', 'data/c is new']
    """
    for name in then:
        before, after = then[name], now.get(name, then[name])
        for file in dict.fromkeys([*before, *after]):
            if file not in after:
                yield f"{file} is gone"
            elif file not in before:
                yield f"{file} is new"
            elif before[file].split()[:1] != after[file].split()[:1]:
                yield f"{file} was changed"


def _entry(path: Path, known: str) -> str:
    """Return the digest of a file, as in :func:`input_digests`; ``known`` is an earlier one."""
    try:
        stat = path.stat()
        if stat.st_size < LARGE:
            return file_digest(path)
        identity = _identity(stat)
        if known.split()[1:] == [identity]:
            return known
        settled = time.time_ns() - max(stat.st_ctime_ns, stat.st_mtime_ns) > _CLOCK_NANOSECONDS
        text = file_digest(path)
        same = _identity(path.stat()) == identity
    except OSError:
        return _UNREADABLE
    return f"{text} {identity}" if settled and same else text


def _identity(stat: stat_result) -> str:
    numbers = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return ":".join(map(str, numbers))
