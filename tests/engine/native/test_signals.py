"""Signals that come in while the library computes."""

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.engine.layout import prefix_tree_nodes
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
    """What a handler raises."""


def policy():
    model = tiny_model(TOKENIZER, hidden_size=64, context_length=2 * LONG, num_hidden_layers=3)
    engine = Engine(decode="native")
    return LanguageModel(model=model, tokenizer=TOKENIZER, decoding=Decoding(), engine=engine)


def generate():
    generator = torch.Generator().manual_seed(0)
    own = policy()
    stops = own.stops
    own.generate(
        [[5, 6]], group_size=64, max_new_tokens=LONG, suppressed_tokens=stops, generator=generator
    )


def read():
    session = policy().session([[5, 6] * (LONG - 1)], generator=torch.Generator())
    session.generate([0], limits=[1])


def attended(tokens, grad=False):
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(tokens, n, 16, generator=draw).requires_grad_(grad) for n in (8, 2, 2))
    return q, tree_attention(q, k, v, prefix_tree_nodes(np.array([tokens]), np.array([0])), 0.25)


def attend():
    attended(40_000)


def attend_back():
    attended(20_000, grad=True)[1].sum().backward()


def multiply():
    size = 9_000
    bf16x6.product(torch.zeros(size, size), torch.zeros(size, size))


@contextlib.contextmanager
def alarmed(ring):
    """Within it a signal comes after a while; yields when it was sent."""
    seen = list[float]()

    def send():
        seen.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, ring)
    timer = threading.Timer(0.3, send)
    timer.start()
    try:
        yield seen
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def fail(number, frame):
    raise Alarm(f"signal {number}")


@pytest.mark.parametrize("call", [generate, read, attend, attend_back, multiply])
def test_what_a_handler_raises_ends_a_call_in_the_middle(call):
    if call is multiply and bf16x6.why_missing_bf16x6() is not None:
        pytest.skip("this processor has no AMX unit")

    with alarmed(fail) as seen, pytest.raises(Alarm, match=f"signal {int(signal.SIGUSR1)}"):
        call()

    assert time.monotonic() - seen[0] < 1.5


def test_a_handler_that_returns_changes_nothing_even_if_it_calls_the_library():
    want, small = attended(8_000)[1], attended(50)[1]
    inside = []

    with alarmed(lambda *_: inside.append(attended(50)[1])):
        found = attended(8_000)[1]

    assert torch.equal(found, want)
    assert torch.equal(inside[0], small)


def test_an_interrupted_session_is_not_gone_on_with():
    session = policy().session([[5, 6] * (LONG - 1)], generator=torch.Generator())

    with alarmed(fail), pytest.raises(Alarm):
        session.generate([0], limits=[1])

    with pytest.raises(RuntimeError, match=r"interrupted.*begin another session"):
        session.logits([0])
