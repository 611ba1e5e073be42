"""Directory lock: one run per directory at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlcomp.errors import ConfigError

_LOCK = ".lock"


@contextmanager
def locked(directory: str | Path) -> Iterator[None]:
    """Lock a directory; the operating system releases it when the process ends.

    Raises:
        ConfigError: another run holds it, or it cannot be written into.
    """
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # O_NOFOLLOW and no O_TRUNC: the file is untrusted.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        file = os.fdopen(os.open(directory / _LOCK, flags, 0o666), "r+")
    except OSError as error:
        raise ConfigError(f"directory is {directory}: {error}; choose one you can write") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"directory is {directory}, where another run is going on: choose another"
            ) from None
        yield


def is_locked(directory: Path) -> bool:
    """Return whether a process holds the lock of a directory (:func:`locked`)."""
    lock = directory / _LOCK
    if not lock.is_file():
        return False
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
