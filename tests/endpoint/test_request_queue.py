"""The request queue: batches, waiting times, ends and refusals."""

import threading
import time
from types import SimpleNamespace

import pytest

from rlcomp.endpoint import request_queue as module
from rlcomp.endpoint.request_queue import QueuedRequest, RequestQueue
from rlcomp.endpoint.server import RefusedError
from rlcomp.endpoint.trace import Trace
from rlcomp.engine.session import TurnSample
from rlcomp.text.special_tokens import MarkedTextCodec
from rlcomp.text.tokenizer import character_tokenizer

TEXTS = MarkedTextCodec(character_tokenizer(characters="abcd"))
ANSWER = [TurnSample([3], [-0.5], False)]


@pytest.fixture
def clock(monkeypatch):
    """The clock of the queue; tests set ``clock.now``, in seconds."""
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(module, "time", clock)
    return clock


def make_queue(episodes, *, wait=1.0, max_calls=8):
    return RequestQueue(episodes, lambda: Trace(TEXTS), wait=wait, max_calls=max_calls)


class Client:
    """A call in its own thread."""

    def __init__(self, queue, episode, text="a"):
        trace = queue.count_call(episode)
        context = trace.context(text, leads=True)
        self.call = QueuedRequest(episode, trace, context, 4, (), 1, None)
        self.answers, self.error = None, None
        before = len(queue._waiting)
        self.thread = threading.Thread(target=self._ask, args=(queue,), daemon=True)
        self.thread.start()
        while len(queue._waiting) == before and self.thread.is_alive():
            time.sleep(0.001)

    def _ask(self, queue):
        try:
            self.answers = queue.wait_for_answers(self.call)
        except RefusedError as error:
            self.error = error

    def join(self):
        self.thread.join(5)
        assert not self.thread.is_alive()
        return self


def refusal(call, *arguments, **settings):
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **settings)
    return caught.value.status, caught.value.code


def test_a_batch_has_every_open_episode_in_order(clock):
    queue = make_queue(3)
    third, first, second = Client(queue, 2), Client(queue, 0), Client(queue, 1)

    batch = queue.next_batch()

    assert [call.episode for call in batch] == [0, 1, 2]
    for call in batch:
        queue.answer(call, ANSWER)
    for client in (first, second, third):
        assert client.join().answers == ANSWER
        assert client.error is None
        assert client.call.trace.calls == 1


def test_calls_of_one_episode_are_sorted_by_content(clock):
    batches = []
    for texts in (["a", "b", "c"], ["c", "b", "a"]):
        queue = make_queue(1)
        for text in texts:
            Client(queue, 0, text)
        batches.append([call.context.text for call in queue.next_batch()])
        queue.stop("over")

    assert sorted(batches[0]) == ["a", "b", "c"]
    assert batches[0] == batches[1]


def test_a_call_is_in_one_batch_only(clock):
    queue = make_queue(2)
    Client(queue, 0)
    Client(queue, 1)
    first = queue.next_batch()
    for call in first:
        queue.answer(call, ANSWER)
    Client(queue, 0, "b")
    Client(queue, 1, "b")

    second = queue.next_batch()

    assert [call.context.text for call in first + second] == ["a", "a", "b", "b"]
    queue.stop("over")


@pytest.mark.parametrize(
    ("begun", "passed", "ready"),
    [
        ((0, 1), 0.9, False),
        ((0, 1), 1.0, True),
        ((0, 1), 1.1, True),
        # An agent that has not begun is still being imported.
        ((0,), 1.1, False),
        ((0,), 29.9, False),
        ((0,), 30.0, True),
        ((1,), 1.1, True),
        ((), 29.9, False),
    ],
)
def test_a_batch_waits_for_silent_agents_for_a_limited_time(clock, begun, passed, ready):
    queue = make_queue(2)
    for episode in begun:
        queue.begin(episode)
    Client(queue, 0)

    clock.now += passed

    assert queue._ready() is ready
    queue.stop("over")


def test_a_long_wait_also_applies_to_agents_that_have_not_begun(clock):
    queue = make_queue(2, wait=50.0)
    Client(queue, 0)

    clock.now += 49.0
    assert not queue._ready()
    clock.now += 1.0
    assert queue._ready()
    queue.stop("over")


def test_a_late_agent_is_not_waited_for_until_its_next_message(clock):
    queue = make_queue(2)
    queue.begin(0)
    queue.begin(1)
    Client(queue, 0)
    clock.now += 2
    (call,) = queue.next_batch()
    queue.answer(call, ANSWER)

    Client(queue, 0, "b")
    (call,) = queue.next_batch()  # the second is still late
    queue.answer(call, ANSWER)
    queue.begin(1)
    Client(queue, 0, "c")

    assert not queue._ready()
    clock.now += 2
    assert queue._ready()
    queue.stop("over")


@pytest.mark.parametrize("message", ["call", "answer", "end", "begin"])
def test_every_message_restarts_the_wait(clock, message):
    queue = make_queue(4)
    for episode in range(4):
        queue.begin(episode)
    Client(queue, 0)
    Client(queue, 1)
    call = Client(queue, 2).call
    clock.now += 0.9
    if message == "call":
        Client(queue, 0, "b")
    elif message == "answer":
        queue.answer(call, ANSWER)
    elif message == "end":
        queue.end(2)
    else:
        queue.begin(2)
    clock.now += 0.9
    assert not queue._ready()
    clock.now += 0.1
    assert queue._ready()
    queue.stop("over")


def test_a_finished_episode_is_not_waited_for(clock):
    queue = make_queue(2)
    Client(queue, 0)

    assert not queue._ready()
    queue.end(1, reward=0.5)

    assert queue._ready()
    assert queue.traces[1].reward == 0.5
    assert queue.traces[1].failed == ""
    queue.stop("over")


def test_an_empty_queue_is_not_ready(clock):
    queue = make_queue(1)
    queue.begin(0)

    clock.now += 1000

    assert not queue._ready()


@pytest.mark.parametrize("end", ["ended", "stopped"])
def test_there_is_no_batch_after_the_last_episode(end):
    queue = make_queue(2)
    batches = []
    thread = threading.Thread(target=lambda: batches.append(queue.next_batch()), daemon=True)
    thread.start()

    if end == "ended":
        queue.end(0)
        assert thread.is_alive()
        queue.end(1)
    else:
        queue.stop("over")

    # At once: the waiting thread is notified and does not poll.
    thread.join(0.3)
    assert not thread.is_alive()
    assert batches == [[]]


def test_a_batch_begins_with_the_last_call():
    queue = make_queue(2, wait=60.0)
    batches = []
    Client(queue, 0)
    thread = threading.Thread(target=lambda: batches.append(queue.next_batch()), daemon=True)
    thread.start()
    Client(queue, 1)

    thread.join(0.3)

    assert [call.episode for call in batches[0]] == [0, 1]
    queue.stop("over")


def test_a_batch_begins_after_the_wait():
    queue = make_queue(2, wait=0.05)
    queue.begin(1)
    Client(queue, 0)
    start = time.monotonic()

    (call,) = queue.next_batch()

    assert call.episode == 0
    assert time.monotonic() - start < 0.4
    queue.stop("over")


@pytest.mark.parametrize(
    ("waits", "passed", "seconds"),
    [(True, 0.0, 0.4), (True, 0.3, 0.1), (True, 0.5, 0.01), (False, 0.3, 0.5)],
)
def test_the_queue_checks_again_after_the_wait(clock, waits, passed, seconds):
    queue = make_queue(2, wait=0.4)
    queue.begin(1)
    if waits:
        Client(queue, 0)

    clock.now += passed

    assert queue._seconds_until_late() == pytest.approx(seconds)
    queue.wait = 9.0
    assert queue._seconds_until_late() == 0.5  # at most the interval of checks
    queue.stop("over")


def test_the_queue_does_not_spin_while_an_agent_starts(clock):
    queue = make_queue(2, wait=0.4)
    Client(queue, 0)

    clock.now += 10.0  # agent 1 has not begun and may take 30 s

    assert queue._seconds_until_late() == 0.5
    queue.stop("over")


def test_the_first_end_counts_and_refuses_later_calls(clock):
    queue = make_queue(2)
    own, other = Client(queue, 0), Client(queue, 1)

    queue.end(0, reward=1.0, failed="too slow")
    queue.end(0, reward=2.0)

    assert own.join().error.args == ("the episode is over",)
    assert (queue.traces[0].returned, queue.traces[0].failed) == (1.0, "too slow")
    assert [call.episode for call in queue.next_batch()] == [1]
    assert other.thread.is_alive()
    for use in (queue.begin, queue.count_call):
        assert refusal(use, 0) == (410, "over")
    assert refusal(queue.add_reward, 0, 1.0) == (410, "over")
    assert refusal(queue.wait_for_answers, own.call) == (410, "over")
    queue.stop("over")


def test_a_call_of_a_finished_episode_is_refused(clock):
    queue = make_queue(2)
    trace = queue.count_call(0)
    late = QueuedRequest(0, trace, trace.context("a", leads=True), 4, (), 1, None)
    queue.end(0)

    assert refusal(queue.wait_for_answers, late) == (410, "over")
    assert queue._waiting == []


def test_a_second_begin_drops_the_earlier_attempt(clock):
    queue = make_queue(2, max_calls=2)
    queue.begin(0)
    done = Client(queue, 0)
    Client(queue, 1)
    for call in queue.next_batch():
        queue.answer(call, ANSWER)
    done.join()
    queue.add_reward(0, 0.5)
    old, other = Client(queue, 0, "b"), Client(queue, 1, "b")

    queue.begin(0)

    assert "begun the episode again" in str(old.join().error)
    assert queue.traces[0].calls == 0
    assert queue.traces[0].posted == []
    assert queue.traces[1].calls == 1
    assert other.thread.is_alive()
    Client(queue, 0, "c")  # the count of calls begins again
    Client(queue, 0, "d")
    assert [call.episode for call in queue.next_batch()] == [0, 0, 1]
    # An answer to the earlier try is not recorded.
    queue.answer(old.call, ANSWER)
    assert queue.traces[0].calls == old.call.trace.calls - 1 == 0
    queue.stop("over")


def test_answers_to_a_refused_call_are_not_recorded(clock):
    queue = make_queue(2)
    slow = Client(queue, 0)
    Client(queue, 1)
    first, second = queue.next_batch()

    first.refuse("the time is over")
    queue.answer(first, ANSWER)
    queue.answer(second, ANSWER)

    assert "the time is over" in str(slow.join().error)
    assert [trace.calls for trace in queue.traces] == [0, 1]


def test_the_number_of_calls_is_limited():
    queue = make_queue(2, max_calls=2)

    assert queue.count_call(0) is queue.traces[0]
    queue.count_call(0)

    assert refusal(queue.count_call, 0) == (403, "too_many_calls")
    assert queue.count_call(1) is queue.traces[1]


def test_a_reward_needs_a_call(clock):
    queue = make_queue(1)
    assert refusal(queue.add_reward, 0, 1.0) == (409, "no_call")
    Client(queue, 0)
    (call,) = queue.next_batch()
    queue.answer(call, ANSWER)

    queue.add_reward(0, 0.25)

    assert queue.traces[0].reward == 0.25


def test_stop_refuses_every_call_with_the_first_reason(clock):
    queue = make_queue(2)
    waiting = Client(queue, 0)
    taken = Client(queue, 1)
    batch = queue.next_batch()
    late = Client(queue, 0, "b")

    queue.stop("the rollout failed")
    queue.stop("the rollout is over")

    # Also calls of a batch without answers.
    for client in (waiting, taken, late):
        assert client.join().error.args == ("the rollout failed",)
        assert (client.error.status, client.error.code) == (410, "over")
    assert len(batch) == 2
    assert queue.next_batch() == []
    assert refusal(queue.begin, 1) == (410, "over")
