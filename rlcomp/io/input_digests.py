"""Digests of the files that a run reads, and their changes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from os import stat_result
from pathlib import Path

from rlcomp.io.manifest import digest

# Files, and digests, of each name in a config; within a name, by path.
Files = Mapping[str, Mapping[str, Path]]
Digests = Mapping[str, Mapping[str, str]]

# Size from which on an unchanged file is not read again, in bytes.
LARGE = 64 << 20
# Resolution of file systems' clocks: a second change within it may go unnoticed.
_NANOSECONDS = 2 * 10**9
_AT_ONCE = 4
_UNREADABLE = "unreadable"


def digests(files: Files, known: Digests | None = None) -> dict[str, dict[str, str]]:
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


def changes(then: Digests, now: Digests) -> Iterator[str]:
    """Describe each file that was changed, added or deleted.

    A name that only one of both has is left out, because the config has changed there.

    Examples:
        >>> then = {"data": {"data/a": "1" * 64, "data/b": "2" * 64}}
        >>> now = {"data": {"data/a": "3" * 64, "data/c": "2" * 64}}
        >>> [*changes(then, now)]
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
            return digest(path)
        mark = _mark(stat)
        if known.split()[1:] == [mark]:
            return known
        settled = time.time_ns() - max(stat.st_ctime_ns, stat.st_mtime_ns) > _NANOSECONDS
        text = digest(path)
        same = _mark(path.stat()) == mark
    except OSError:
        return _UNREADABLE
    return f"{text} {mark}" if settled and same else text


def _mark(stat: stat_result) -> str:
    numbers = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return ":".join(map(str, numbers))
