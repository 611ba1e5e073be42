"""The desk: which calls a wave holds, whom it waits for, and what becomes of those it does not."""

import threading
import time
from types import SimpleNamespace

import pytest

from rlcomp.endpoint import request_queue as module
from rlcomp.endpoint.refused import RefusedError
from rlcomp.endpoint.request_queue import QueuedRequest, RequestQueue
from rlcomp.endpoint.trace import Trace
from rlcomp.engine.session import TurnSample
from rlcomp.text.special_tokens import MarkedTextCodec
from rlcomp.text.tokenizer import character_tokenizer

TEXTS = MarkedTextCodec(character_tokenizer(characters="abcd"))
ANSWER = [TurnSample([3], [-0.5], False)]


@pytest.fixture
def clock(monkeypatch):
    """The desk's own time, in seconds: ``clock.now`` may be set."""
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(module, "time", clock)
    return clock


def desk_of(episodes, *, wait=1.0, max_calls=8):
    return RequestQueue(episodes, lambda: Trace(TEXTS), wait=wait, max_calls=max_calls)


class Client:
    """A call in a thread of its own."""

    def __init__(self, desk, episode, text="a"):
        trace = desk.trace(episode)
        context = trace.context(text, leads=True)
        self.call = QueuedRequest(episode, trace, context, 4, (), 1, None)
        self.answers, self.refused = None, None
        before = len(desk._waiting)
        self.thread = threading.Thread(target=self._ask, args=(desk,), daemon=True)
        self.thread.start()
        while len(desk._waiting) == before and self.thread.is_alive():
            time.sleep(0.001)

    def _ask(self, desk):
        try:
            self.answers = desk.wait_for_answers(self.call)
        except RefusedError as error:
            self.refused = error

    def join(self):
        self.thread.join(5)
        assert not self.thread.is_alive()
        return self


def refusal(call, *arguments, **settings):
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **settings)
    return caught.value.status, caught.value.code


def test_a_wave_is_every_open_episode_in_their_order(clock):
    desk = desk_of(3)
    third, first, second = Client(desk, 2), Client(desk, 0), Client(desk, 1)

    wave = desk.next_batch()

    assert [call.episode for call in wave] == [0, 1, 2]
    for call in wave:
        desk.answer(call, ANSWER)
    for client in (first, second, third):
        assert client.join().answers == ANSWER
        assert client.refused is None
        assert client.call.trace.calls == 1


def test_calls_of_one_episode_are_sorted_by_what_they_ask(clock):
    waves = []
    for texts in (["a", "b", "c"], ["c", "b", "a"]):
        desk = desk_of(1)
        for text in texts:
            Client(desk, 0, text)
        waves.append([call.context.text for call in desk.next_batch()])
        desk.stop("over")

    assert sorted(waves[0]) == ["a", "b", "c"]
    assert waves[0] == waves[1]


def test_a_call_is_answered_in_one_wave_only(clock):
    desk = desk_of(2)
    Client(desk, 0)
    Client(desk, 1)
    first = desk.next_batch()
    for call in first:
        desk.answer(call, ANSWER)
    Client(desk, 0, "b")
    Client(desk, 1, "b")

    second = desk.next_batch()

    assert [call.context.text for call in first + second] == ["a", "a", "b", "b"]
    desk.stop("over")


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
def test_a_wave_waits_for_those_of_which_nothing_is_heard_for_some_time(
    clock, begun, passed, ready
):
    desk = desk_of(2)
    for episode in begun:
        desk.begin(episode)
    Client(desk, 0)

    clock.now += passed

    assert desk._ready() is ready
    desk.stop("over")


def test_a_long_wait_is_that_of_agents_that_begin_too(clock):
    desk = desk_of(2, wait=50.0)
    Client(desk, 0)

    clock.now += 49.0
    assert not desk._ready()
    clock.now += 1.0
    assert desk._ready()
    desk.stop("over")


def test_whoever_was_late_is_not_waited_for_until_it_is_heard_again(clock):
    desk = desk_of(2)
    desk.begin(0)
    desk.begin(1)
    Client(desk, 0)
    clock.now += 2
    (call,) = desk.next_batch()
    desk.answer(call, ANSWER)

    Client(desk, 0, "b")
    (call,) = desk.next_batch()  # the second is late still
    desk.answer(call, ANSWER)
    desk.begin(1)
    Client(desk, 0, "c")

    assert not desk._ready()
    clock.now += 2
    assert desk._ready()
    desk.stop("over")


@pytest.mark.parametrize("hear", ["ask", "answer", "end", "begin"])
def test_the_wait_begins_anew_with_whatever_is_heard(clock, hear):
    desk = desk_of(4)
    for episode in range(4):
        desk.begin(episode)
    Client(desk, 0)
    Client(desk, 1)
    call = Client(desk, 2).call
    clock.now += 0.9
    if hear == "ask":
        Client(desk, 0, "b")
    elif hear == "answer":
        desk.answer(call, ANSWER)
    elif hear == "end":
        desk.end(2)
    else:
        desk.begin(2)
    clock.now += 0.9
    assert not desk._ready()
    clock.now += 0.1
    assert desk._ready()
    desk.stop("over")


def test_an_episode_that_has_ended_is_not_waited_for(clock):
    desk = desk_of(2)
    Client(desk, 0)

    assert not desk._ready()
    desk.end(1, reward=0.5)

    assert desk._ready()
    assert desk.traces[1].reward == 0.5
    assert desk.traces[1].failed == ""
    desk.stop("over")


def test_nothing_waits_and_nothing_is_ready(clock):
    desk = desk_of(1)
    desk.begin(0)

    clock.now += 1000

    assert not desk._ready()


@pytest.mark.parametrize("how", ["ended", "stopped"])
def test_there_is_no_wave_when_all_is_over(how):
    desk = desk_of(2)
    waves = []
    thread = threading.Thread(target=lambda: waves.append(desk.next_batch()), daemon=True)
    thread.start()

    if how == "ended":
        desk.end(0)
        assert thread.is_alive()
        desk.end(1)
    else:
        desk.stop("over")

    # At once: whoever waits for a wave is told, and does not look for himself.
    thread.join(0.3)
    assert not thread.is_alive()
    assert waves == [[]]


def test_a_wave_begins_as_soon_as_the_last_call_is_there():
    desk = desk_of(2, wait=60.0)
    waves = []
    Client(desk, 0)
    thread = threading.Thread(target=lambda: waves.append(desk.next_batch()), daemon=True)
    thread.start()
    Client(desk, 1)

    thread.join(0.3)

    assert [call.episode for call in waves[0]] == [0, 1]
    desk.stop("over")


def test_a_wave_begins_as_soon_as_the_wait_is_over():
    desk = desk_of(2, wait=0.05)
    desk.begin(1)
    Client(desk, 0)
    start = time.monotonic()

    (call,) = desk.next_batch()

    assert call.episode == 0
    assert time.monotonic() - start < 0.4
    desk.stop("over")


@pytest.mark.parametrize(
    ("waits", "passed", "seconds"),
    [(True, 0.0, 0.4), (True, 0.3, 0.1), (True, 0.5, 0.01), (False, 0.3, 0.5)],
)
def test_the_desk_looks_again_when_the_wait_is_over(clock, waits, passed, seconds):
    desk = desk_of(2, wait=0.4)
    if waits:
        Client(desk, 0)

    clock.now += passed

    assert desk._seconds_until_late() == pytest.approx(seconds)
    desk.wait = 9.0
    assert desk._seconds_until_late() == 0.5  # never longer than a look
    desk.stop("over")


def test_an_end_is_heard_once_and_its_calls_are_refused(clock):
    desk = desk_of(2)
    own, other = Client(desk, 0), Client(desk, 1)

    desk.end(0, reward=1.0, failed="too slow")
    desk.end(0, reward=2.0)

    assert own.join().refused.args == ("the episode is over",)
    assert (desk.traces[0].returned, desk.traces[0].failed) == (1.0, "too slow")
    assert [call.episode for call in desk.next_batch()] == [1]
    assert other.thread.is_alive()
    for use in (desk.begin, desk.trace):
        assert refusal(use, 0) == (410, "over")
    assert refusal(desk.pay, 0, 1.0) == (410, "over")
    assert refusal(desk.wait_for_answers, own.call) == (410, "over")
    desk.stop("over")


def test_a_call_that_comes_when_its_episode_is_over_is_refused_at_once(clock):
    desk = desk_of(2)
    trace = desk.trace(0)
    late = QueuedRequest(0, trace, trace.context("a", leads=True), 4, (), 1, None)
    desk.end(0)

    assert refusal(desk.wait_for_answers, late) == (410, "over")
    assert desk._waiting == []


def test_an_agent_that_begins_anew_leaves_nothing_of_its_earlier_try(clock):
    desk = desk_of(2, max_calls=2)
    desk.begin(0)
    done = Client(desk, 0)
    Client(desk, 1)
    for call in desk.next_batch():
        desk.answer(call, ANSWER)
    done.join()
    desk.pay(0, 0.5)
    old, other = Client(desk, 0, "b"), Client(desk, 1, "b")

    desk.begin(0)

    assert "begun the episode again" in str(old.join().refused)
    assert desk.traces[0].calls == 0
    assert desk.traces[0].posted == []
    assert desk.traces[1].calls == 1
    assert other.thread.is_alive()
    Client(desk, 0, "c")  # both of its calls are free again
    Client(desk, 0, "d")
    assert [call.episode for call in desk.next_batch()] == [0, 0, 1]
    # An answer to the earlier try is not recorded.
    desk.answer(old.call, ANSWER)
    assert desk.traces[0].calls == old.call.trace.calls - 1 == 0
    desk.stop("over")


def test_an_answer_to_a_call_that_was_refused_is_not_recorded(clock):
    desk = desk_of(2)
    slow = Client(desk, 0)
    Client(desk, 1)
    first, second = desk.next_batch()

    first.refuse("the time is over")
    desk.answer(first, ANSWER)
    desk.answer(second, ANSWER)

    assert "the time is over" in str(slow.join().refused)
    assert [trace.calls for trace in desk.traces] == [0, 1]


def test_an_episode_has_so_many_calls_and_no_more():
    desk = desk_of(2, max_calls=2)

    assert desk.trace(0) is desk.traces[0]
    desk.trace(0)

    assert refusal(desk.trace, 0) == (403, "too_many_calls")
    assert desk.trace(1) is desk.traces[1]


def test_a_reward_is_paid_to_a_call_or_refused(clock):
    desk = desk_of(1)
    assert refusal(desk.pay, 0, 1.0) == (409, "no_call")
    Client(desk, 0)
    (call,) = desk.next_batch()
    desk.answer(call, ANSWER)

    desk.pay(0, 0.25)

    assert desk.traces[0].reward == 0.25


def test_when_all_is_over_every_call_is_refused_with_the_first_reason(clock):
    desk = desk_of(2)
    waiting = Client(desk, 0)
    taken = Client(desk, 1)
    wave = desk.next_batch()
    late = Client(desk, 0, "b")

    desk.stop("the rollout failed")
    desk.stop("the rollout is over")

    # Also those that a wave has taken and nobody answers.
    for client in (waiting, taken, late):
        assert client.join().refused.args == ("the rollout failed",)
        assert (client.refused.status, client.refused.code) == (410, "over")
    assert len(wave) == 2
    assert desk.next_batch() == []
    assert refusal(desk.begin, 1) == (410, "over")
