import pytest

from rlcomp.workers import call_queue as queue_module
from rlcomp.workers.call_queue import CallQueue
from rlcomp.workers.executor import FailedCall, ReturnedCall

OVER = ("time", "ran for more than 3 s", 0.0, ())


def queue(count, num_workers=1, concurrency=1, previous_mean=None):
    arguments = [{"number": n} for n in range(count)]
    return CallQueue(
        arguments,
        timeout=3.0,
        num_workers=num_workers,
        concurrency=concurrency,
        previous_mean=previous_mean,
    )


def scored(seconds, value=1.0):
    return ("scored", value, seconds, ())


def numbers(jobs):
    return [job.number for job in jobs]


def test_the_first_call_goes_alone_and_later_ones_by_what_it_took():
    # 20 ms a message: five calls of 4 ms.
    waiting = queue(100)
    (first,) = waiting.take([])

    waiting.record_reply(first, scored(0.004))

    assert waiting.mean_seconds == 0.004
    assert numbers(waiting.take([])) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("count", "num_workers", "previous_mean", "size"),
    [
        (100, 1, 1e-6, 32),  # at most
        (100, 1, 0.0, 32),
        (100, 1, 0.03, 1),  # at least
        (21, 4, 1e-6, 6),  # a quarter of 21, rounded up
        (100, 1, None, 1),
    ],
)
def test_how_many_calls_a_message_holds(count, num_workers, previous_mean, size):
    assert len(queue(count, num_workers, previous_mean=previous_mean).take([])) == size


def test_calls_that_run_together_are_at_most_so_many_and_divided():
    assert len(queue(100, concurrency=8).take([])) == 8
    assert len(queue(6, num_workers=3, concurrency=8).take([])) == 2
    assert queue(1, concurrency=8).take([])[0].is_concurrent
    assert not queue(1).take([])[0].is_concurrent


def test_after_one_was_stuck_each_goes_alone():
    waiting = queue(10, previous_mean=1e-6)
    waiting.one_per_order = True

    assert numbers(waiting.take([])) == [0]


def test_a_call_that_overran_is_made_again_when_nothing_else_is_left():
    waiting = queue(3, previous_mean=0.01)
    first, second = waiting.take([])
    waiting.record_overrun([first, second])

    assert waiting.has_overrun
    # The one behind it was not begun: it is first in the line, and this was no try.
    others = waiting.take([])
    assert numbers(others) == [1, 2]
    assert second.tries == 1
    assert waiting.take(others) == []
    for job in others:
        waiting.record_reply(job, scored(0.01))
    (retry,) = waiting.take([])
    assert (retry.number, retry.timeout, retry.is_retry, retry.tries) == (0, 0.5, True, 2)
    waiting.record_overrun([retry])
    assert waiting.finished
    assert waiting.outcomes[0] == FailedCall("time", "ran for more than 3 s", 2)


def test_second_chances_run_beside_one_another():
    waiting = queue(2)
    jobs = waiting.take([]) + waiting.take([])
    assert not waiting.retries_only(jobs)
    for job in jobs:
        waiting.record_overrun([job])

    first = waiting.take([])

    assert waiting.retries_only(first)
    assert numbers(waiting.take(first)) == [1]


def test_a_second_chance_is_no_longer_than_the_first():
    waiting = CallQueue([{}], timeout=0.2, num_workers=1, concurrency=1)
    waiting.record_overrun(waiting.take([]))

    assert waiting.take([])[0].timeout == 0.2


def test_a_death_costs_the_call_in_hand_only():
    waiting = queue(3, previous_mean=1e-6)
    waiting.record_death(waiting.take([]), ("died", "why", 0.0, ()))

    assert not waiting.finished
    assert numbers(waiting.take([])) == [1, 2]
    assert waiting.num_unfinished == 2


def test_a_death_among_calls_that_run_together_gives_each_a_second_chance_at_full_length():
    waiting = queue(2, concurrency=2)
    waiting.record_death(waiting.take([]), ("died", "why", 0.0, ()))

    (first,) = waiting.take([])
    (second,) = waiting.take([first])
    assert (first.timeout, second.timeout) == (3.0, 3.0)
    waiting.record_death([first], ("died", "why", 0.0, ()))
    waiting.record_reply(second, scored(0.5, value=7))
    assert waiting.outcomes == [FailedCall("died", "why", 2), ReturnedCall(7, 0.5, 2, ())]


def test_a_temporary_failure_is_retried_after_a_delay(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(queue_module.time, "monotonic", lambda: now[0])
    waiting = queue(1)
    waits = []
    for _ in range(3):
        (job,) = waiting.take([])
        waiting.record_reply(job, ("temporary", "not now", 0.0, ()))
        waits.append(waiting.next_retry_time - now[0])
        assert waiting.take([]) == []
        assert not waiting.retries_only([])
        now[0] = waiting.next_retry_time

    waiting.record_reply(waiting.take([])[0], ("temporary", "not now", 0.0, ()))

    assert waits == pytest.approx([0.1, 0.5, 2.0])
    assert waiting.outcomes == [FailedCall("error", "not now, after 4 tries", 4)]
    assert waiting.next_retry_time is None


def test_second_chances_wait_for_what_will_be_tried_again():
    waiting = queue(2)
    (first,), (second,) = waiting.take([]), waiting.take([])
    waiting.record_reply(first, ("temporary", "not now", 0.0, ()))
    waiting.record_overrun([second])

    assert waiting.take([]) == []


def test_the_usual_time_is_that_of_the_batch_before_until_a_call_returns():
    waiting = queue(2, previous_mean=0.25)
    assert waiting.mean_seconds == 0.25
    for job, seconds in zip(waiting.take([]) + waiting.take([]), (0.1, 0.3), strict=True):
        waiting.record_reply(job, scored(seconds))

    assert waiting.mean_seconds == pytest.approx(0.2)
