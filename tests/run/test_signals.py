"""A run that is stopped at once."""

import signal

import pytest

from rlcomp.run.signals import stop_at_once


def test_the_exception_names_the_signal_that_was_sent():
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(KeyboardInterrupt, match=f"^signal {signal.SIGINT:d}$"):
            stop_at_once(signal.SIGINT, None)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
