"""Stopping on request: SIGINT and SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """The first signal asks for an end after the current step, a second one ends at once."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Context in which signals ask; the handlers of before come back behind it."""
        try:
            before = {
                number: signal.signal(number, self._ask)
                for number in (signal.SIGINT, signal.SIGTERM)
            }
        except ValueError:  # not the main thread: signals are somebody else's
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.asked:
            raise KeyboardInterrupt(f"second signal {number}")
        self.asked = True
