import re
import signal
import threading

import pytest

from rlcomp.errors import ConfigError
from rlcomp.verify import pattern
from rlcomp.verify.pattern import time_limit


def backtrack(characters):
    """Twice as many steps for each character."""
    with time_limit("(a+)+b", "a" * characters):
        return re.search("(a+)+b", "a" * characters)


def test_an_endless_match_is_interrupted(monkeypatch):
    monkeypatch.setattr(pattern, "_SECONDS", 0.05)

    result = r"takes more than 0.05 s in a text of 64 characters, 'a{60}': it backtracks"
    with pytest.raises(ConfigError, match=result):
        backtrack(64)


def test_the_earlier_signal_handler_is_restored():
    def own(*_):
        raise AssertionError

    before = signal.signal(signal.SIGVTALRM, own)
    try:
        assert backtrack(4) is None
        assert signal.getsignal(signal.SIGVTALRM) is own
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGVTALRM, before)


def test_other_threads_have_no_limit():
    result = []
    thread = threading.Thread(target=lambda: result.append(backtrack(4)))
    thread.start()
    thread.join()

    assert result == [None]
