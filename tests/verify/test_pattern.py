import re
import signal
import threading

import pytest

from rlcomp.errors import ConfigError
from rlcomp.verify import pattern
from rlcomp.verify.pattern import bounded


def backtrack(characters):
    """Twice as many steps for each character."""
    with bounded("(a+)+b", "a" * characters):
        return re.search("(a+)+b", "a" * characters)


def test_a_match_that_never_ends_is_ended(monkeypatch):
    monkeypatch.setattr(pattern, "_SECONDS", 0.05)

    told = r"takes more than 0.05 s in a text of 64 characters, 'a{60}': it backtracks"
    with pytest.raises(ConfigError, match=told):
        backtrack(64)


def test_what_was_there_is_there_again():
    def own(*_):
        raise AssertionError

    before = signal.signal(signal.SIGVTALRM, own)
    try:
        assert backtrack(4) is None
        assert signal.getsignal(signal.SIGVTALRM) is own
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGVTALRM, before)


def test_in_another_thread_it_matches_without_a_bound():
    found = []
    thread = threading.Thread(target=lambda: found.append(backtrack(4)))
    thread.start()
    thread.join()

    assert found == [None]
