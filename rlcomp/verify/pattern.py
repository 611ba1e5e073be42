"""Matching with a user's regular expression in bounded time: one that backtracks may never end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from rlcomp.errors import ConfigError

# Of the processor, for one text: a pattern that does not backtrack takes milliseconds.
_SECONDS = 5.0


@contextlib.contextmanager
def bounded(pattern: str, text: str) -> Iterator[None]:
    """Context in which matching takes at most five seconds of the processor.

    By a signal, which ends a match as it runs, and which only the main thread gets: in another one
    there is no bound.

    Args:
        pattern: what is matched, for the message.
        text: in which.

    Raises:
        ConfigError: it takes longer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise ConfigError(
            f"the pattern {pattern!r:.200} takes more than {_SECONDS:g} s in a text of {len(text)} "
            f"characters, {text[:60]!r}: it backtracks; write it so that no two repeats can match "
            "the same characters, not (a+)+ but a+"
        )

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
