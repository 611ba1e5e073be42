"""Waves: what an answer draws follows from its episode, what it asks, and how often."""

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
    """Answers with as many tokens as it may, and notes what it was asked for."""

    def __init__(self, log_prob=-0.5):
        self.log_prob = log_prob
        self.sessions, self.closed = [], []

    def _log_probs(self, count):
        """All of them certain but the last."""
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


class Desk:
    """Gives waves that are prepared, and notes the answers."""

    def __init__(self, *waves):
        self.batches = [*waves, []]
        self.answers = []

    def next_batch(self):
        return self.batches.pop(0)

    def answer(self, call, answers):
        self.answers.append((call, answers))


def call_of(trace, text, *, episode=0, limit=1, stops=(), n=1, seed=None):
    return QueuedRequest(episode, trace, trace.context(text, leads=True), limit, stops, n, seed)


def drawn(*calls, seeds=(7, 8)):
    """The seeds of the answers to calls, each in a wave of its own."""
    policy, desk = Policy(), Desk(*([call] for call in calls))
    BatchedGeneration(policy, None, seeds).run(desk)
    return [session.seeds for session in policy.sessions]


def test_each_call_is_answered_with_its_own_answers():
    trace, policy = Trace(TEXTS), Policy()
    calls = [call_of(trace, "a", limit=3, n=2), call_of(trace, "b", limit=1, episode=1)]
    desk, decoding = Desk(calls), object()

    waves = BatchedGeneration(policy, decoding, [7, 8])
    waves.run(desk)

    (session,) = policy.sessions
    ids = [call.context.ids for call in calls]
    assert session.contexts == [ids[0], ids[0], ids[1]]
    assert session.limits == [3, 3, 1]
    assert session.decoding is decoding
    assert policy.closed == [[0, 1, 2]]
    assert [call for call, _ in desk.answers] == calls
    assert [[said.tokens for said in answers] for _, answers in desk.answers] == [
        [[session.seeds[0]] * 3, [session.seeds[1]] * 3],
        [[session.seeds[2]]],
    ]
    assert waves.batches == 1


def test_calls_with_the_same_texts_that_end_them_are_answered_together():
    trace, policy = Trace(TEXTS), Policy()
    texts = {"a": ("é",), "b": (), "c": ("é",), "d": ("x", "y")}
    desk = Desk([call_of(trace, text, stops=stops) for text, stops in texts.items()])

    BatchedGeneration(policy, None, [7]).run(desk)

    assert [session.texts for session in policy.sessions] == [[b"\xc3\xa9"], [], [b"x", b"y"]]
    assert [call.context.text for call, _ in desk.answers] == ["a", "c", "b", "d"]


def test_the_same_call_draws_the_same_whatever_came_before():
    once = drawn(call_of(Trace(TEXTS), "a"))
    trace = Trace(TEXTS)

    assert drawn(call_of(trace, "b"), call_of(trace, "a"))[1:] == once
    assert drawn(call_of(Trace(TEXTS), "a"), seeds=(9, 8)) != once
    assert drawn(call_of(Trace(TEXTS), "a", episode=1)) != once


def test_a_call_that_is_repeated_draws_anew_unless_it_has_a_seed():
    trace = Trace(TEXTS)
    first, second, third = drawn(*(call_of(trace, "a") for _ in range(3)))
    assert len({*first, *second, *third}) == 3

    own = drawn(*(call_of(trace, "a", seed=seed) for seed in (3, 3, 0, 0, 4)))
    assert own[0] == own[1] != own[4]
    assert own[2] == own[3] != own[4]
    assert not {*first, *second, *third} & {seed for seeds in own for seed in seeds}
    assert drawn(call_of(trace, "a", seed=3), seeds=(9, 8))[0] != own[0]


def test_the_answers_to_one_call_draw_each_its_own():
    ((first, second, third),) = drawn(call_of(Trace(TEXTS), "a", n=3))

    assert len({first, second, third}) == 3
    assert drawn(call_of(Trace(TEXTS), "a")) == [[first]]


@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
def test_a_token_that_could_not_be_sampled_ends_the_rollout(value):
    desk = Desk([call_of(Trace(TEXTS), "a", limit=2)])

    with pytest.raises(NumericalError):
        BatchedGeneration(Policy(log_prob=value), None, [7]).run(desk)

    assert desk.answers == []
