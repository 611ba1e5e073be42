"""Time limit for a user's regular expressions, because backtracking may never end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from rlcomp.errors import ConfigError

# Processor time for one text; a pattern that does not backtrack takes milliseconds.
_SECONDS = 5.0


@contextlib.contextmanager
def time_limit(pattern: str, text: str) -> Iterator[None]:
    """Limit matching within this context to five seconds of processor time.

    A signal interrupts the match. Only the main thread receives signals: in other threads there is
    no limit.

    Args:
        pattern: the regular expression, for the message.
        text: the searched text, for the message.

    Raises:
        ConfigError: the match takes longer than the limit.
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

    previous_handler = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous_handler)
