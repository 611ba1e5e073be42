"""Outcome of a run: ``failure.json`` of a failed run, and whether a run is active."""

from __future__ import annotations

import fcntl
import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rlcomp.errors import Interrupted

FAILURE = "failure.json"


@contextmanager
def failure_kept(directory: Path, explain: Callable[[Exception], str]) -> Iterator[None]:
    """Context that writes ``failure.json`` on an exception; deletes that of an earlier failure.

    Stopping on request is no failure. A directory that another run holds is left alone.

    Args:
        directory: the run's directory.
        explain: the message for an error.
    """
    if not running(directory):
        (directory / FAILURE).unlink(missing_ok=True)
    try:
        yield
    except Interrupted:
        raise
    except Exception as error:
        if directory.is_dir() and not running(directory):
            told = {
                "error": explain(error),
                "type": type(error).__name__,
                "traceback": "".join(traceback.format_exception(error)),
            }
            (directory / FAILURE).write_text(json.dumps(told, indent=1), encoding="utf-8")
        raise


def failure(directory: Path) -> str | None:
    """The error a run failed with, its type in front; None if it did not fail."""
    file = directory / FAILURE
    if not file.is_file():
        return None
    told = json.loads(file.read_text(encoding="utf-8"))
    return f"{told['type']}: {told['error']}"


def running(directory: Path) -> bool:
    """Whether a process holds the directory (:func:`rlcomp.io.lock.locked`)."""
    lock = directory / ".lock"
    if not lock.is_file():
        return False
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
