"""Calls under limits: what is told of each, and what comes back."""

import threading
import time

import pytest

from rlcomp.errors import DataError
from rlcomp.text import untrusted_input as module
from rlcomp.text.untrusted_input import call_within, untrusted_call
from rlcomp.workers.executor import FailedCall


class Pool:
    """One that answers as it is told to."""

    def __init__(self, outcome):
        self.outcome, self.asked = outcome, []

    def map(self, function, calls, timeout):
        self.asked.append((function, calls, timeout))
        return [self.outcome]


@pytest.fixture
def answer(monkeypatch):
    def use(outcome):
        pool = Pool(outcome)
        monkeypatch.setattr(module, "_pool", lambda process: pool)
        return pool

    return use


def call():
    return untrusted_call("a.b", {"x": 1}, seconds=2.5, subject="the file", remedy="mend it")


def test_what_the_function_returns_comes_back(answer):
    pool = answer(type("Value", (), {"value": {"y": 2}})())

    assert call() == {"y": 2}
    assert pool.asked == [("a.b", [{"x": 1}], 2.5)]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("time", "the file takes more than 2.5 s to read: mend it"),
        ("memory", "the file takes more than 4 GiB to read: mend it"),
        ("output", "the file makes more than 100,663,296 characters: mend it"),
        ("error", "the file cannot be read (it is bad): mend it"),
    ],
)
def test_each_limit_is_told(answer, kind, told):
    answer(FailedCall(kind, "it is bad"))

    with pytest.raises(DataError) as error:
        call()
    assert str(error.value) == told


def test_a_process_has_one_pool_of_its_own(monkeypatch):
    made = []
    monkeypatch.setattr(module, "WorkerPool", lambda **limits: made.append(limits) or limits)
    module._pool.cache_clear()
    try:
        assert module._pool(1) is module._pool(1)
        assert module._pool(2) is not made[0]
    finally:
        module._pool.cache_clear()
    assert made == [{"num_workers": 1, "memory_gib": 4.0, "output_limit": 100_663_296}] * 2


def test_a_call_in_time_gives_its_value_or_its_error():
    def broken():
        raise KeyboardInterrupt("now")

    assert call_within(5.0, lambda: None) is None
    with pytest.raises(KeyboardInterrupt, match="now"):
        call_within(5.0, broken)


def test_a_call_out_of_time_is_left_behind_in_a_thread_that_ends_with_the_process():
    threads, release = [], threading.Event()

    def slow():
        threads.append(threading.current_thread())
        release.wait(20)

    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"more than 0\.05 s"):
        call_within(0.05, slow)
    release.set()

    assert time.monotonic() - start < 10
    assert threads[0].daemon
