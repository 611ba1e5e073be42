"""Outcome of a run: ``failure.json`` of a failed run, and whether a run is active."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rlcomp.errors import Interrupted, add_note
from rlcomp.io.attempt import FAILURE, accepted_at
from rlcomp.io.draft import draft_of
from rlcomp.io.record import has_record
from rlcomp.io.strict_json import bounded
from rlcomp.io.watch import Watch

# A full disk has room for the failure because this file gives its own up.
RESERVED = ".reserved"
# Bytes, enough for all but a failure whose every character JSON escapes.
ROOM = 1 << 16
# Of a failure that is read: each of some 40,000 characters may be an escape of six bytes or twelve.
_LARGEST = 1 << 20

Verdict = Callable[[BaseException], Mapping[str, object]]


@contextmanager
def failure_kept(directory: Path, watch: Watch, verdict: Verdict) -> Iterator[None]:
    """Context that writes ``failure.json`` on an exception; deletes that of an earlier failure.

    Stopping on request is no failure. A directory that another run holds is left alone. One that
    was deleted in the meantime is made again, with nothing else in it. In a run with a record only
    an attempt that was accepted (:func:`rlcomp.io.attempt.accept`) writes and deletes it.

    Args:
        directory: the run's directory.
        watch: knows where the run is.
        verdict: ``error``, ``type``, ``exit_code`` and ``traceback`` of an exception.
    """
    there, reserved = directory.is_dir(), directory / RESERVED
    recorded, before = has_record(directory), accepted_at(directory)
    if there and not running(directory):
        if not recorded:
            (directory / FAILURE).unlink(missing_ok=True)
        # A directory that nobody can write into is told later.
        with contextlib.suppress(OSError), draft_of(reserved) as draft:
            draft.write_bytes(bytes(ROOM))
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        raise
    except BaseException as error:
        refused = recorded and accepted_at(directory) == before
        if there and not refused and not running(directory):
            _write(directory, {**verdict(error), **watch.place()}, error)
        raise
    finally:
        if not running(directory):
            reserved.unlink(missing_ok=True)


def _write(directory: Path, told: Mapping[str, object], error: BaseException) -> None:
    """Write the failure whole or not at all; what hinders it does not hide the error."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RESERVED).unlink(missing_ok=True)
        with draft_of(directory / FAILURE) as draft:
            draft.write_text(json.dumps(told, indent=1), encoding="utf-8")
    except OSError as late:
        add_note(error, f"{directory / FAILURE} cannot be written: {late}")


def failure(directory: Path) -> str | None:
    """The error a run failed with, its type in front; None if it did not fail."""
    file = directory / FAILURE
    if not file.is_file():
        return None
    told = json.loads(bounded(file, _LARGEST))
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
