"""Digests of the files that a run reads, and what changed since they were recorded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from os import stat_result
from pathlib import Path

from rlcomp.io.manifest import digest

# Files by what names them in a config; then digests by the name of a file.
Files = Mapping[str, Mapping[str, Path]]
Digests = Mapping[str, Mapping[str, str]]

# Bytes from which on a file that was not touched is not read again.
LARGE = 64 << 20
# Of clocks of file systems: what was touched within may be touched again unnoticed.
_NANOSECONDS = 2 * 10**9
_AT_ONCE = 4
_UNREADABLE = "unreadable"


def digests(files: Files, known: Digests | None = None) -> dict[str, dict[str, str]]:
    """Return the SHA-256 of every file, each behind what names it.

    All bytes are read. Only a file of at least 64 MiB is taken for the one of ``known`` where the
    file system says that nothing touched it: the same inode, size, and times of change and of
    modification, to the nanosecond. No program can set the time of change, so that a file which was
    written to, replaced or copied is read again, whatever its time of modification is.

    Args:
        files: by what names them.
        known: digests of before.
    """
    before = {file: text for group in (known or {}).values() for file, text in group.items()}
    places = {file: path for group in files.values() for file, path in group.items()}
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = threads.map(lambda file: _entry(places[file], before.get(file, "")), places)
        entries = dict(zip(places, found, strict=True))
    return {name: {file: entries[file] for file in group} for name, group in files.items()}


def changes(then: Digests, now: Digests) -> Iterator[str]:
    """Yield what happened to each file that is not as it was.

    What only one of them names is left out: the config is another there.

    Examples:
        >>> then = {"data": {"data/a": "1" * 64, "data/b": "2" * 64}}
        >>> now = {"data": {"data/a": "3" * 64, "data/c": "2" * 64}}
        >>> [*changes(then, now)]
        ['data/a was changed', 'data/b is gone', 'data/c is new']
    """
    for name in then:
        was, is_now = then[name], now.get(name, then[name])
        for file in dict.fromkeys([*was, *is_now]):
            if file not in is_now:
                yield f"{file} is gone"
            elif file not in was:
                yield f"{file} is new"
            elif was[file].split()[:1] != is_now[file].split()[:1]:
                yield f"{file} was changed"


def _entry(path: Path, known: str) -> str:
    """SHA-256 of a file and, of a large one, how it can be recognised."""
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
