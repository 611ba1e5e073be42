"""Signals during calls of the native library."""

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch

from rlcomp.engine.attention import prefix_tree_nodes
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.engine.native import bf16x6
from rlcomp.engine.native.library import why_missing
from rlcomp.engine.native.tree_attention import tree_attention
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

pytestmark = pytest.mark.skipif(why_missing() is not None, reason=str(why_missing()))

TOKENIZER = character_tokenizer(characters="abcdef")
LONG = 20_000


class Alarm(Exception):
    """Raised by the signal handler."""


def policy():
    model = tiny_model(TOKENIZER, hidden_size=64, context_length=2 * LONG, num_hidden_layers=3)
    engine = Engine(decode="native")
    return LanguageModel(model=model, tokenizer=TOKENIZER, decoding=Decoding(), engine=engine)


# Each prepares a call of the library, so that the signal comes within the call itself.
def generate():
    own, generator = policy(), torch.Generator().manual_seed(0)
    settings = {"suppressed_tokens": own.stops, "generator": generator}
    return lambda: own.generate([[5, 6]], group_size=64, max_new_tokens=LONG, **settings)


def read():
    session = policy().session([[5, 6] * (LONG - 1)], generator=torch.Generator())
    return lambda: session.generate([0], limits=[1])


def attended(tokens, grad=False):
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(tokens, n, 16, generator=draw).requires_grad_(grad) for n in (8, 2, 2))
    return q, tree_attention(q, k, v, prefix_tree_nodes(np.array([tokens]), np.array([0])), 0.25)


def attend():
    return lambda: attended(40_000)


def attend_back():
    return attended(20_000, grad=True)[1].sum().backward


def multiply():
    size = 9_000
    return lambda: bf16x6.product(torch.zeros(size, size), torch.zeros(size, size))


@contextlib.contextmanager
def alarmed(handler):
    """Send a signal after 0.3 s; yield a list that gets the time of sending."""
    sent = list[float]()

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.3, send)
    timer.start()
    try:
        yield sent
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def raise_alarm(number, frame):
    raise Alarm(f"signal {number}")


@pytest.mark.parametrize("call", [generate, read, attend, attend_back, multiply])
def test_an_exception_of_a_signal_handler_ends_a_call(call):
    if call is multiply and bf16x6.why_missing_bf16x6() is not None:
        pytest.skip("this processor has no AMX unit")

    prepared = call()
    with alarmed(raise_alarm) as sent, pytest.raises(Alarm, match=f"signal {int(signal.SIGUSR1)}"):
        prepared()

    assert time.monotonic() - sent[0] < 1.5


def test_a_signal_handler_may_call_the_library():
    expected, small = attended(8_000)[1], attended(50)[1]
    inside = []

    with alarmed(lambda *_: inside.append(attended(50)[1])):
        actual = attended(8_000)[1]

    assert torch.equal(actual, expected)
    assert torch.equal(inside[0], small)


def test_an_interrupted_session_is_refused():
    session = policy().session([[5, 6] * (LONG - 1)], generator=torch.Generator())

    with alarmed(raise_alarm), pytest.raises(Alarm):
        session.generate([0], limits=[1])

    with pytest.raises(RuntimeError, match=r"interrupted.*begin another session"):
        session.logits([0])
