"""Directory lock: one run per directory at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlcomp.errors import ConfigError


@contextmanager
def locked(directory: str | Path) -> Iterator[None]:
    """Lock a directory; the operating system releases it when the process ends.

    Raises:
        ConfigError: another run holds it, or it cannot be written into.
    """
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / ".lock").open("w")
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
