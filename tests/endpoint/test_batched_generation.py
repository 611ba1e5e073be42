"""Batched generation: draws depend on episode, content of the call, and repeats."""

from types import SimpleNamespace

import pytest

from rlcomp.endpoint.request_queue import BatchedGeneration, QueuedRequest
from rlcomp.endpoint.trace import Trace
from rlcomp.engine.session import TurnSample
from rlcomp.errors import NumericalError
from rlcomp.text.special_tokens import MarkedTextCodec
from rlcomp.text.tokenizer import character_tokenizer

TEXTS = MarkedTextCodec(character_tokenizer(characters="abcd"))


class Policy:
    """Samples the maximum number of tokens, and records its sessions."""

    def __init__(self, log_prob=-0.5):
        self.log_prob = log_prob
        self.sessions, self.closed = [], []

    def _log_probs(self, count):
        """Zeros, and ``log_prob`` for the last token."""
        return [0.0] * (count - 1) + [self.log_prob]

    def session(self, contexts, *, decoding, generator, seeds):
        self.sessions.append(SimpleNamespace(contexts=contexts, decoding=decoding, seeds=seeds))
        assert len(seeds) == len(contexts)

        def generate(rows, *, limits, texts):
            self.sessions[-1].limits, self.sessions[-1].texts = limits, texts
            assert [*rows] == [*range(len(contexts))]
            return [
                TurnSample([seeds[n]] * limits[n], self._log_probs(limits[n]), False) for n in rows
            ]

        return SimpleNamespace(generate=generate, close=lambda rows: self.closed.append([*rows]))


class Queue:
    """Returns fixed batches, and records the answers."""

    def __init__(self, *batches):
        self.batches = [*batches, []]
        self.answers = []

    def next_batch(self):
        return self.batches.pop(0)

    def answer(self, call, answers):
        self.answers.append((call, answers))


def call_of(trace, text, *, episode=0, limit=1, stops=(), n=1, seed=None):
    return QueuedRequest(episode, trace, trace.context(text, leads=True), limit, stops, n, seed)


def drawn(*calls, seeds=(7, 8)):
    """The seeds of the answers to calls, one call per batch."""
    policy, queue = Policy(), Queue(*([call] for call in calls))
    BatchedGeneration(policy, None, seeds).run(queue)
    return [session.seeds for session in policy.sessions]


def test_each_call_gets_its_own_answers():
    trace, policy = Trace(TEXTS), Policy()
    calls = [call_of(trace, "a", limit=3, n=2), call_of(trace, "b", limit=1, episode=1)]
    queue, decoding = Queue(calls), object()

    BatchedGeneration(policy, decoding, [7, 8]).run(queue)

    (session,) = policy.sessions
    ids = [call.context.ids for call in calls]
    assert session.contexts == [ids[0], ids[0], ids[1]]
    assert session.limits == [3, 3, 1]
    assert session.decoding is decoding
    assert policy.closed == [[0, 1, 2]]
    assert [call for call, _ in queue.answers] == calls
    assert [[turn.tokens for turn in answers] for _, answers in queue.answers] == [
        [[session.seeds[0]] * 3, [session.seeds[1]] * 3],
        [[session.seeds[2]]],
    ]


def test_calls_with_equal_stop_texts_share_a_session():
    trace, policy = Trace(TEXTS), Policy()
    texts = {"a": ("é",), "b": (), "c": ("é",), "d": ("x", "y")}
    queue = Queue([call_of(trace, text, stops=stops) for text, stops in texts.items()])

    BatchedGeneration(policy, None, [7]).run(queue)

    assert [session.texts for session in policy.sessions] == [[b"\xc3\xa9"], [], [b"x", b"y"]]
    assert [call.context.text for call, _ in queue.answers] == ["a", "c", "b", "d"]


def test_draws_depend_on_the_call_and_not_on_earlier_calls():
    once = drawn(call_of(Trace(TEXTS), "a"))
    trace = Trace(TEXTS)

    assert drawn(call_of(trace, "b"), call_of(trace, "a"))[1:] == once
    assert drawn(call_of(Trace(TEXTS), "a"), seeds=(9, 8)) != once
    assert drawn(call_of(Trace(TEXTS), "a", episode=1)) != once


def test_a_repeated_call_has_new_draws_unless_it_has_a_seed():
    trace = Trace(TEXTS)
    first, second, third = drawn(*(call_of(trace, "a") for _ in range(3)))
    assert len({*first, *second, *third}) == 3

    own = drawn(*(call_of(trace, "a", seed=seed) for seed in (3, 3, 0, 0, 4)))
    assert own[0] == own[1] != own[4]
    assert own[2] == own[3] != own[4]
    assert not {*first, *second, *third} & {seed for seeds in own for seed in seeds}
    assert drawn(call_of(trace, "a", seed=3), seeds=(9, 8))[0] != own[0]


def test_answers_to_one_call_have_different_draws():
    ((first, second, third),) = drawn(call_of(Trace(TEXTS), "a", n=3))

    assert len({first, second, third}) == 3
    assert drawn(call_of(Trace(TEXTS), "a")) == [[first]]


@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
def test_a_log_prob_that_is_not_finite_ends_the_rollout(value):
    queue = Queue([call_of(Trace(TEXTS), "a", limit=2)])

    with pytest.raises(NumericalError):
        BatchedGeneration(Policy(log_prob=value), None, [7]).run(queue)

    assert queue.answers == []
