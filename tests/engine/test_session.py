"""The packed session against the recompute session."""

import random
from functools import partial

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from rlcomp.engine import cache
from rlcomp.engine.architectures import layers, probe
from rlcomp.engine.decode_transformers import decode
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import draw_tokens
from rlcomp.engine.session import RecomputeSession, SamplingParams
from rlcomp.engine.session_packed import PackedSession
from rlcomp.engine.transformer import Transformer
from rlcomp.engine.uniforms import ForkUniforms

VOCABULARY, EOS = 29, 1
TABLE = [bytes([97 + token]) if token != EOS else b"" for token in range(VOCABULARY)]


def model_of(family):
    torch.manual_seed(0)
    if family == "gpt2":
        shape = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 512}
        made = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **shape))
    else:
        made = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=VOCABULARY,
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=512,
            )
        )
    for parameter in made.parameters():
        parameter.data *= 3.0
    return made.double().eval()


def both(model, contexts, decoding, seed=0, longest=512):
    """Return a packed and a recompute session with the same random numbers."""
    draw = partial(draw_tokens, decoding=decoding, suppressed=None)
    once, again = (
        SamplingParams([EOS], TABLE, draw, torch.Generator().manual_seed(seed)) for _ in range(2)
    )
    return (
        PackedSession(Transformer(model, layers, "torch"), contexts, once, longest=longest),
        RecomputeSession(partial(decode, model, probe(model)), contexts, again),
    )


def same(ours, theirs):
    assert [turn.tokens for turn in ours] == [turn.tokens for turn in theirs]
    assert [turn.truncated for turn in ours] == [turn.truncated for turn in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.log_probs == pytest.approx(other.log_probs, abs=2e-6)  # rotations are float32
        assert (one.sampling_mask is None) == (other.sampling_mask is None)
        assert one.sampling_mask is None or torch.equal(one.sampling_mask, other.sampling_mask)


def turns(sessions, draw, *, count, texts=(), close=0.2, ask=1.0, fork=0.0):
    """Play random turns: limits, observations, forks, closed rows, idle rows."""
    alive = list(range(len(sessions[0].contexts)))
    for _ in range(count):
        # Forks may be forked.
        for row in [row for row in alive for _ in range(2) if draw.random() < fork]:
            new = [session.fork(row) for session in sessions]
            assert new == [len(sessions[1].contexts) - 1] * 2
            alive.append(new[0])
        rows = [row for row in alive if draw.random() < ask] or alive
        draw.shuffle(rows)
        limits = [draw.randint(1, 12) for _ in rows]
        said = [session.generate(rows, limits=limits, texts=texts) for session in sessions]
        same(*said)
        assert sessions[0].contexts == sessions[1].contexts
        gone = [row for row in rows if draw.random() < close]
        for session in sessions:
            session.close(gone)
        alive = [row for row in alive if row not in gone]
        if not alive:
            return
        for row in alive:
            observed = [draw.randrange(2, VOCABULARY) for _ in range(draw.randint(0, 9))]
            for session in sessions:
                session.extend(row, observed)


PROMPTS = [[5, 6, 7, 8], [9], [5, 6, 7, 8], [10, 11], [5, 6, 7, 8], [3] * 40, [3] * 40, [4, 4]]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_packed_session_samples_the_tokens_of_recompute_session(family, shared, seed, monkeypatch):
    if shared:  # prompts of any size are shared, not copied
        monkeypatch.setattr(cache, "_COPY_BYTES", 0)
    sessions = both(model_of(family), PROMPTS * 2, Decoding(temperature=0.8), seed)

    turns(sessions, random.Random(seed), count=6)


@pytest.mark.parametrize("seed", range(4))
def test_idle_rows_keep_their_state(seed):
    sessions = both(model_of("llama"), PROMPTS, Decoding(), seed)

    turns(sessions, random.Random(seed), count=8, ask=0.5, close=0.1)


def test_stop_texts_and_recorded_masks():
    sessions = both(model_of("llama"), PROMPTS * 3, Decoding(top_k=9, replay=True))

    turns(sessions, random.Random(1), count=6, texts=[b"e", b"hh", b"k"], close=0.05)


def test_every_row_may_stop_at_its_first_token(monkeypatch):
    monkeypatch.setattr(cache, "_COPY_BYTES", 0)
    # No token of the turn enters the cache: the last one is computed with the next tokens.
    sessions = both(model_of("llama"), [[3] * 80] * 8, Decoding())
    texts = [text for text in TABLE if text]
    for _ in range(2):
        turns = [session.generate(range(8), limits=[6] * 8, texts=texts) for session in sessions]
        same(*turns)
        for session in sessions:
            for row in range(8):
                session.extend(row, [row + 2])


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_rows_fill_their_context_at_different_times(family):
    # A row of 40 tokens has room for 4, while others continue for 12.
    model = model_of(family)
    if family == "gpt2":
        model.transformer.wpe = torch.nn.Embedding(44, 24).double()
    sessions = both(model, PROMPTS, Decoding(), longest=44)
    rows = list(range(len(PROMPTS)))
    for _ in range(4):
        limits = [min(12, 44 - len(sessions[0].contexts[row])) for row in rows]
        same(*(session.generate(rows, limits=limits) for session in sessions))
        full = [row for row in rows if len(sessions[0].contexts[row]) > 43]
        rows = [row for row in rows if row not in full]
        for session in sessions:
            session.close(full)
            for row in rows:
                session.extend(row, [7][: 43 - len(session.contexts[row])])


def test_rows_may_be_extended_before_the_first_turn():
    sessions = both(model_of("llama"), [[5, 6], [5, 6], [7]], Decoding())
    for session in sessions:
        session.extend(0, [8, 9])
        session.extend(1, [8, 9])

    turns(sessions, random.Random(0), count=3, close=0.0)


def test_memory_of_closed_rows_is_freed():
    (session, _) = both(model_of("llama"), [[5, 6]] * 16, Decoding())
    session.generate(range(16), limits=[4] * 16)
    session.close(range(3))
    session.generate(range(3, 16), limits=[4] * 13)
    assert session.rows == list(range(16))  # 13 of 16: no copy
    session.close(range(3, 8))
    session.generate(range(8, 16), limits=[4] * 8)

    assert session.rows == list(range(8, 16))
    assert session.cache._own[0][0].shape[0] == 8


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_forks_sample_the_tokens_of_recompute_session(family, shared, seed, monkeypatch):
    if shared:
        monkeypatch.setattr(cache, "_COPY_BYTES", 0)
    sessions = both(model_of(family), PROMPTS, Decoding(temperature=0.8), seed)

    turns(sessions, random.Random(seed), count=5, ask=0.8, fork=0.2)
    assert len(sessions[0].contexts) > len(PROMPTS)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("seed", range(3))
def test_logits_agree_with_recompute_session_and_change_no_draw(family, seed):
    model = model_of(family)
    looked, plain = (both(model, PROMPTS, Decoding(), seed) for _ in range(2))
    for sessions, look in ((looked, 0.5), (plain, 0.0)):
        # The same turns: the choice of rows has its own random numbers.
        draw, other = random.Random(seed), random.Random(1)
        for _ in range(5):
            rows = list(range(len(sessions[0].contexts)))
            looked_at = [row for row in rows if other.random() < look]
            if looked_at:
                ours, theirs = (session.logits(looked_at) for session in sessions)
                torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)
            forked = draw.choice(rows)
            assert len({session.fork(forked) for session in sessions}) == 1
            limits = [draw.randint(1, 6) for _ in range(len(rows) + 1)]
            for session in sessions:
                session.generate([*rows, len(rows)], limits=limits)
                for row in rows:
                    session.extend(row, [7] * (row % 3))

    assert looked[0].contexts == looked[1].contexts == plain[0].contexts == plain[1].contexts


def test_one_row_of_one_head_is_forked():
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1}
    config = LlamaConfig(vocab_size=VOCABULARY, num_hidden_layers=1, **shape)
    sessions = both(LlamaForCausalLM(config).double().eval(), [[5, 6]], Decoding())
    for rows in ([0], [0, 1], [2, 0, 1]):
        same(*(session.generate(rows, limits=[3] * len(rows)) for session in sessions))
        for session in sessions:
            session.fork(0)


def test_a_fork_does_not_change_other_rows():
    ((forked, _), (plain, _)) = (both(model_of("llama"), PROMPTS, Decoding()) for _ in range(2))
    rows = list(range(len(PROMPTS)))
    for session in (forked, plain):
        session.generate(rows, limits=[6] * len(rows))
    context = [*forked.contexts[0]]
    forks = [forked.fork(0) for _ in range(4)]
    assert [forked.contexts[fork] for fork in forks] == [context] * 4
    forked.generate([*rows, *forks], limits=[6] * (len(rows) + 4))
    plain.generate(rows, limits=[6] * len(rows))

    assert forked.contexts[: len(rows)] == plain.contexts
    ways = {tuple(forked.contexts[row][len(context) :]) for row in [0, *forks]}
    assert len(ways) > 2


def test_forks_of_different_batches_have_different_numbers():
    generator = torch.Generator().manual_seed(0)
    actual = []
    for _ in range(2):
        numbers = ForkUniforms(3, generator)
        numbers.at(0)
        for _ in range(2):
            numbers.fork()
        assert torch.equal(numbers.at(70), numbers.at(70))  # beyond one block
        actual.append(torch.cat([numbers.at(step) for step in (0, 1, 70)]))
        assert actual[-1].unique().numel() == 15
    assert not {*actual[0].flatten().tolist()} & {*actual[1].flatten().tolist()}


def test_forking_a_closed_row_is_refused():
    session, _ = both(model_of("llama"), [[5, 6], [7]], Decoding())
    session.generate([0, 1], limits=[2, 2])
    session.close([0])

    with pytest.raises(ValueError, match="row 0 is closed"):
        session.fork(0)


def test_a_turn_continued_after_a_stop_text_equals_one_turn():
    model = model_of("llama")
    contexts = [[3, 4, 5], [6, 7]]
    whole = both(model, contexts, Decoding())[0].generate([0, 1], limits=[12, 12])
    for session in both(model, contexts, Decoding()):
        for row, turn in enumerate(whole):
            tokens = []
            while len(tokens) < 12 and EOS not in tokens:
                texts = [bytes([97 + token]) for token in range(2, VOCABULARY, 2)]
                (more,) = session.generate([row], limits=[12 - len(tokens)], texts=texts)
                tokens += more.tokens
            assert tokens == turn.tokens
