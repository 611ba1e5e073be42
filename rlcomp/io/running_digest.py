"""Running digest of a growing file: SHA-256, with marks that locate changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from rlcomp.errors import CheckpointError

# A size of the file, and the SHA-256 of all bytes before it.
Mark = tuple[int, str]
MOST_MARKS = 64
_BLOCK = 1 << 20


class RunningDigest:
    """Digest of a file that only grows; appending does not read the file.

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
        """Add the bytes of a file up to ``end``, or to its end; return how many lines they end."""
        lines = 0
        while self.size < end and (block := opened.read(min(_BLOCK, end - self.size))):
            self._add(block)
            lines += block.count(b"\n")
        return lines


def digest_of(file: Path, size: int, marks: Iterable[Mark] = ()) -> RunningDigest:
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
    # The run's own marks: it goes on as if it had never stopped.
    digest.marks = [*marks] or digest.marks
    return digest


def _changed(file: Path, between: tuple[int, int], lines: tuple[int, int]) -> str:
    first, last = lines
    place = f"line {first}" if first == last else f"lines {first} to {last}"
    start, end = between
    return f"{file}, {place} (bytes {start:,} to {end:,}), is not what the run wrote"
