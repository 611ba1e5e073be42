"""Stopping on request: SIGINT and SIGTERM."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from rlcomp.files.shared_status import SharedStatus, describe_position


class StopRequest:
    """Signal handler: the first signal ends the run after the current step, a second at once.

    Args:
        status: shared status of the run; the supervisor, if there is one
            (:mod:`rlcomp.cli.supervisor`), counts its signals there, and answers them.
    """

    def __init__(self, status: SharedStatus) -> None:
        self.status = status
        self.count = 0

    @property
    def requested(self) -> bool:
        """Return whether this process or its supervisor got a signal to end the run."""
        return bool(self.count or self.status.signals)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals in a context; restore the earlier handlers afterwards."""
        try:
            earlier_handlers = {
                number: signal.signal(number, self._handle)
                for number in (signal.SIGINT, signal.SIGTERM)
            }
        except ValueError:  # not the main thread: another part handles signals
            yield
            return
        try:
            yield
        finally:
            for number, handler in earlier_handlers.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1 or self.status.signals > 1:
            if self.status.supervised:
                stop_at_once(number, frame)
            raise KeyboardInterrupt(f"second signal {number}")
        if not self.status.supervised:
            print_stopping(self.status)


def stop_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """Stop a supervised run by a KeyboardInterrupt; later signals are ignored."""
    del frame
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    raise KeyboardInterrupt(f"signal {number}")


def print_stopping(status: SharedStatus) -> None:
    """Print at the first signal what the run waits for."""
    position = describe_position(status.position())
    message = (
        f"\nrlcomp: stopping at the end of this step; still {position}; "
        "a second signal stops at once\n"
    )
    os.write(2, message.encode())  # the signal may have interrupted a print, which forbids another
