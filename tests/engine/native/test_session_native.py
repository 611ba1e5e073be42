"""The native session against the recompute session with the torch loop."""

import random
from functools import partial

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from rlcomp.engine import decode_packed, session_native
from rlcomp.engine.architectures import layers
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.session import RecomputeSession, SamplingParams
from rlcomp.engine.session_native import NativeSession
from rlcomp.engine.session_packed import PackedSession
from rlcomp.engine.transformer import Transformer

VOCABULARY, EOS = 29, 1
TABLE = [bytes([97 + token]) if token != EOS else b"" for token in range(VOCABULARY)]
PROMPTS = [[5, 6, 7, 8], [9], [5, 6, 7, 8], [10, 11], [5, 6, 7, 8], [3] * 40, [3] * 40, [4, 4]]


def model_of(family):
    torch.manual_seed(0)
    if family == "gpt2":
        shape = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 512}
        return GPT2LMHeadModel(
            GPT2Config(vocab_size=VOCABULARY, initializer_range=0.06, **shape)
        ).eval()
    shape = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
    config = LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, initializer_range=0.1,
                         max_position_embeddings=512, **shape)  # fmt: skip
    return LlamaForCausalLM(config).eval()


def opened(kind, model, contexts=PROMPTS, seed=0, seeds=None, decoding=None):
    draw = TokenDraw(decoding or Decoding())
    sampling = SamplingParams([EOS], TABLE, draw, torch.Generator().manual_seed(seed), seeds)
    transformer = Transformer(model, layers, "torch")
    if kind is RecomputeSession:
        return RecomputeSession(partial(decode_packed.decode, transformer), contexts, sampling)
    return kind(transformer, contexts, sampling, longest=512)


def same(ours, theirs):
    assert [turn.tokens for turn in ours] == [turn.tokens for turn in theirs]
    assert [turn.truncated for turn in ours] == [turn.truncated for turn in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-5)


def play(sessions, draw, texts=()):
    """Play random turns: limits, observations, logits, forks, closed rows, idle rows."""
    alive = list(range(len(sessions[0].contexts)))
    for _ in range(5):
        for row in [row for row in alive if draw.random() < 0.2]:
            (new,) = {session.fork(row) for session in sessions}
            alive.append(new)
        rows = [row for row in alive if draw.random() < 0.8] or alive
        draw.shuffle(rows)
        if draw.random() < 0.5:
            ours, theirs = (session.logits(rows[:2]) for session in sessions)
            torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)
        limits = [draw.randint(1, 12) for _ in rows]
        same(*(session.generate(rows, limits=limits, texts=texts) for session in sessions))
        assert sessions[0].contexts == sessions[1].contexts
        closed = [row for row in rows if draw.random() < 0.1]
        alive = [row for row in alive if row not in closed]
        for session in sessions:
            session.close(closed)
        for row in alive:
            observed = [draw.randrange(2, VOCABULARY) for _ in range(draw.randint(0, 40))]
            for session in sessions:
                session.extend(row, observed)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("seeds", [None, list(range(8))])
def test_native_session_samples_the_tokens_of_recompute_session(family, seed, seeds, native):
    model = model_of(family)
    sessions = [
        opened(kind, model, seed=seed, seeds=seeds) for kind in (NativeSession, RecomputeSession)
    ]

    play(sessions, random.Random(seed))


@pytest.mark.parametrize("steps", [1, 3, 256])
def test_stop_texts_end_turns_across_library_calls(steps, native, monkeypatch):
    monkeypatch.setattr(session_native, "_STEPS_PER_CALL", steps)
    sessions = [opened(kind, model_of("llama")) for kind in (NativeSession, RecomputeSession)]

    play(sessions, random.Random(1), texts=[b"e", b"hh", b"kab", b"b"])


@pytest.mark.parametrize("steps", [2, 256])
def test_the_generator_ends_in_the_state_of_the_torch_session(steps, native, monkeypatch):
    monkeypatch.setattr(session_native, "_STEPS_PER_CALL", steps)
    ours, theirs = (opened(kind, model_of("llama")) for kind in (NativeSession, PackedSession))
    for rows, limit in (([0, 1], 5), ([2], 3), ([0, 1, 2, 5], 9)):
        for session in (ours, theirs):
            session.generate(rows, limits=[limit] * len(rows))

        states = [each.sampling.generator.get_state() for each in (ours, theirs)]
        assert torch.equal(*states)


def test_a_row_is_bitwise_independent_of_its_split_into_turns(native):
    model = model_of("llama")
    whole = opened(NativeSession, model, [[5, 6, 7, 8] * 10], seeds=[3])
    cut = opened(NativeSession, model, [[5, 6], [9]], seeds=[3, 4])
    cut.logits([0, 1])
    for piece in ([7, 8], [5], [6, 7, 8] + [5, 6, 7, 8] * 8):
        cut.extend(0, piece)
        cut.logits([0])

    (one,), (other,) = (session.generate([0], limits=[40]) for session in (whole, cut))

    assert (one.tokens, one.log_probs) == (other.tokens, other.log_probs)


def test_greedy_turns(native):
    sessions = [
        opened(kind, model_of("llama"), decoding=Decoding(temperature=0))
        for kind in (NativeSession, RecomputeSession)
    ]

    play(sessions, random.Random(2))


def test_rows_may_be_extended_forked_and_closed_before_the_first_turn(native):
    sessions = [
        opened(kind, model_of("llama"), [[5, 6], [5, 6], [7]])
        for kind in (NativeSession, RecomputeSession)
    ]
    for session in sessions:
        session.extend(0, [8, 9])
        session.extend(1, [8, 9])
        assert session.fork(1) == 3
        session.close([2])

    same(*(session.generate([3, 0, 1], limits=[9] * 3) for session in sessions))


def test_forking_a_closed_row_is_refused(native):
    session = opened(NativeSession, model_of("llama"))
    session.generate([0, 1], limits=[2, 2])
    session.close([0])

    with pytest.raises(ValueError, match="row 0 is closed: fork it"):
        session.fork(0)


@pytest.mark.parametrize("rows", [[-1], [2]])
def test_unknown_rows_are_refused(rows, native):
    session = opened(NativeSession, model_of("llama"), [[5], [6]])
    session.generate([0], limits=[1])

    with pytest.raises(ValueError, match=f"row {rows[0]} does not exist: the session has 2"):
        session.generate(rows, limits=[1])
    with pytest.raises(ValueError, match=f"row {rows[0]} does not exist"):
        session.logits(rows)
    with pytest.raises(ValueError, match=f"row {rows[0]} does not exist"):
        session.close(rows)


def test_sampling_a_closed_row_is_refused(native):
    session = opened(NativeSession, model_of("llama"), [[5], [6]])
    session.generate([0, 1], limits=[1, 1])
    session.close([1])

    with pytest.raises(ValueError, match="row 1 is closed: sample it"):
        session.generate([0, 1], limits=[1, 1])


@pytest.mark.parametrize("token", [-1, VOCABULARY])
def test_tokens_outside_the_vocabulary_are_refused(token, native):
    model = model_of("llama")
    with pytest.raises(ValueError, match=rf"token {token} is not in the vocabulary: 0 to 28"):
        opened(NativeSession, model, [[5], [5, token]]).generate([0], limits=[1])
    session = opened(NativeSession, model, [[5], [6]])
    session.generate([0, 1], limits=[1, 1])
    session.extend(1, [0, token, 28])

    assert len(session.generate([0], limits=[1])) == 1
    with pytest.raises(ValueError, match=f"token {token} is not in the vocabulary"):
        session.generate([1], limits=[1])


def test_turns_beyond_the_longest_row_are_refused(native):
    # The last token enters the cache together with later tokens.
    session = opened(NativeSession, model_of("llama"), [[5] * 512])

    assert len(session.generate([0], limits=[1])[0].tokens) == 1
    with pytest.raises(ValueError, match=r"has 513 tokens.*1 more exceed"):
        session.generate([0], limits=[1])
    with pytest.raises(ValueError, match="2 more exceed the maximum of 512"):
        opened(NativeSession, model_of("llama"), [[5] * 512]).generate([0], limits=[2])
