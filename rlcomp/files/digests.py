"""Digests (SHA-256): of files, of growing files with marks, and of a run's input files."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from os import stat_result
from pathlib import Path
from typing import IO

from rlcomp.errors import CheckpointError

# A size of the file, and the SHA-256 of all bytes before it.
Mark = tuple[int, str]
MOST_MARKS = 64
_BLOCK = 1 << 20


class RunningDigest:
    """Digest of a growing file; appending does not read the file.

    Attributes:
        size: of the file, in bytes.
        marks: one for each append, the last at ``size``. Above 64 marks, the one between the fewest
            bytes is dropped.
    """

    def __init__(self) -> None:
        self.size = 0
        self.marks: list[Mark] = []
        self._sum = hashlib.sha256()

    def append(self, data: bytes) -> None:
        """Add appended bytes, and a mark behind them."""
        self._add(data)
        self.mark()

    def mark(self) -> None:
        """Add a mark at the present size, unless one is there."""
        if self.size and (not self.marks or self.marks[-1][0] < self.size):
            self.marks.append((self.size, self.hexdigest()))
        if len(self.marks) > MOST_MARKS:
            ends = [0, *(size for size, _ in self.marks)]
            gaps = [after - before for before, after in zip(ends, ends[2:], strict=False)]
            del self.marks[gaps.index(min(gaps))]

    def hexdigest(self) -> str:
        """Return the SHA-256 of the whole, in hexadecimal."""
        return self._sum.hexdigest()

    def _add(self, data: bytes) -> None:
        self._sum.update(data)
        self.size += len(data)

    def read(self, opened: IO[bytes], end: int) -> int:
        """Add the bytes of a file up to ``end``, or to its end; return the number of line ends."""
        lines = 0
        while self.size < end and (block := opened.read(min(_BLOCK, end - self.size))):
            self._add(block)
            lines += block.count(b"\n")
        return lines


def read_digest(file: Path, size: int, marks: Iterable[Mark] = ()) -> RunningDigest:
    """Return the digest of the first ``size`` bytes of a file, once it agrees with marks.

    Args:
        file: is there, if ``size`` is not 0.
        size: at most the file's.
        marks: of the file as it was written, up to ``size``; none: nothing is compared.

    Raises:
        CheckpointError: the file was changed; names the first lines that differ, and their bytes.
    """
    digest, lines = RunningDigest(), 0
    if not size:
        return digest
    with file.open("rb") as opened:
        steps: list[tuple[int, str | None]] = [*marks] or [(size, None)]
        for end, expected in steps:
            start, first = digest.size, lines + 1
            lines += digest.read(opened, end)
            if expected not in (None, digest.hexdigest()):
                raise CheckpointError(_changed(file, (start, end), (first, max(first, lines))))
            digest.mark()
    # The marks of the run: it continues as if it had never stopped.
    digest.marks = [*marks] or digest.marks
    return digest


def _changed(file: Path, between: tuple[int, int], lines: tuple[int, int]) -> str:
    first, last = lines
    place = f"line {first}" if first == last else f"lines {first} to {last}"
    start, end = between
    return f"{file}, {place} (bytes {start:,} to {end:,}), is not what the run wrote"


# Files, and digests, of each name in a config; within a name, by path.
Files = Mapping[str, Mapping[str, Path]]
Digests = Mapping[str, Mapping[str, str]]

# Bytes. A larger file is not read again if it is unchanged.
LARGE = 64 << 20
# Resolution of file systems' clocks: a second change within it may go unnoticed.
_NANOSECONDS = 2 * 10**9
_AT_ONCE = 4
_UNREADABLE = "unreadable"


def input_digests(files: Files, known: Digests | None = None) -> dict[str, dict[str, str]]:
    """Return the SHA-256 of every file, grouped by the text that names it.

    All bytes are read. Only a file of at least 64 MiB keeps its digest of ``known``, if its inode,
    its size and its times of change and of modification are the same to the nanosecond. No program
    can set the time of change: a file that was written to, replaced or copied is read again, even
    with its old time of modification.

    Args:
        files: by what names them.
        known: digests of before.
    """
    before = {file: text for group in (known or {}).values() for file, text in group.items()}
    places = {file: path for group in files.values() for file, path in group.items()}
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        values = threads.map(lambda file: _entry(places[file], before.get(file, "")), places)
        entries = dict(zip(places, values, strict=True))
    return {name: {file: entries[file] for file in group} for name, group in files.items()}


def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def digest_changes(then: Digests, now: Digests) -> Iterator[str]:
    """Describe each file that was changed, added or deleted.

    A name that only one of both has is left out, because the config has changed there.

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
    """Return the SHA-256 of a file and, for a large one, its mark."""
    try:
        stat = path.stat()
        if stat.st_size < LARGE:
            return file_digest(path)
        mark = _mark(stat)
        if known.split()[1:] == [mark]:
            return known
        settled = time.time_ns() - max(stat.st_ctime_ns, stat.st_mtime_ns) > _NANOSECONDS
        text = file_digest(path)
        same = _mark(path.stat()) == mark
    except OSError:
        return _UNREADABLE
    return f"{text} {mark}" if settled and same else text


def _mark(stat: stat_result) -> str:
    numbers = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return ":".join(map(str, numbers))
