"""Decode slots against the decode loops, with weights that change between steps."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.engine.native.library import why_missing
from rlcomp.engine.session import RecomputeSlots
from rlcomp.engine.session_native import NativeSlots
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.uniforms import FixedUniforms, RequestUniforms, Uniforms, stack_numbers
from rlcomp.errors import ConfigError
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_policy
from rlcomp.text.rows import rows_from_ids

NATIVE = pytest.param(
    "native", marks=pytest.mark.skipif(why_missing() is not None, reason=f"{why_missing()}")
)
PROMPTS = [[3, 4, 5], [6, 7], [3, 4, 5], [8]]


def policy(decode="auto", **model):
    torch.manual_seed(3)
    return tiny_policy(scale=4.0, context_length=64, engine=Engine(decode=decode), **model)


def change(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in model.model.parameters():
            each.add_(0.2 * torch.randn(each.shape, generator=generator))


def numbers(row, start, count):
    """Return the numbers of a row of a request with seed 5."""
    return RequestUniforms(4, 5).row_numbers(row, start, count)


def scored(model, prompt, tokens):
    rows = rows_from_ids(model.tokenizer, [prompt], [tokens])
    with torch.no_grad():
        return model.log_probs(rows)[0, len(prompt) : len(prompt) + len(tokens)].tolist()


def run(slots, steps, between=lambda turn: None, turns=3):
    """Sample four rows, the last two from the second turn on; return the turns of each row."""
    rows = slots.add(PROMPTS[:2])
    samples = {row: [] for row in range(4)}
    for turn in range(turns):
        if turn == 1:
            rows += slots.add(PROMPTS[2:])
        live = {p: n for n, p in enumerate(rows) if not samples[n] or samples[n][-1].truncated}
        counts = {n: sum(len(each.tokens) for each in samples[n]) for n in range(4)}
        turn_samples = slots.advance({p: numbers(n, counts[n], steps) for p, n in live.items()})
        for row, each in turn_samples.items():
            samples[live[row]].append(each)
        slots.close([p for p, n in live.items() if not samples[n][-1].truncated])
        between(turn)
    return samples


def joined(samples):
    return [[token for each in samples[row] for token in each.tokens] for row in range(4)]


@pytest.mark.parametrize("decode", [NATIVE, "torch"])
def test_tokens_do_not_depend_on_the_start_of_a_row(decode):
    model = policy(decode)
    kind = NativeSlots if decode == "native" else RecomputeSlots
    slots = model.decode_slots()
    assert type(slots) is kind

    actual = joined(run(slots, steps=3, turns=4))

    whole = model.generation.decode_loop(model.generation.draw(model.decoding))
    sampled = whole(
        PROMPTS,
        group_size=1,
        stop=StopRule(model.stops, [12, 12, 9, 9]),
        draw=model.generation.draw(model.decoding),
        uniforms=Uniforms(4, torch.Generator().manual_seed(5)),
    )
    lengths = sampled.lengths.tolist()
    expected = [row[:n] for row, n in zip(sampled.tokens.tolist(), lengths, strict=True)]
    assert actual == expected
    assert max(lengths) > 6


@pytest.mark.parametrize("decode", [NATIVE, "torch"])
def test_reread_log_probs_are_scores_of_the_sampling_weights(decode):
    model = policy(decode)
    slots = model.decode_slots(reread=True)
    versions = [policy(decode)]

    def learn(turn):
        change(model, turn)
        versions.append(policy(decode))
        versions[-1].model.load_state_dict(model.model.state_dict())
        slots.renew()

    samples = run(slots, 3, learn)

    for row in range(4):
        before = []
        first = 0 if row < 2 else 1
        for turn, each in enumerate(samples[row], first):
            whole = scored(versions[turn], PROMPTS[row], before + each.tokens)
            assert each.log_probs == pytest.approx(whole[len(before) :], abs=2e-5)
            before = before + each.tokens
    assert len(samples[0]) > 1


@pytest.mark.skipif(why_missing() is not None, reason=f"{why_missing()}")
def test_the_cache_keeps_old_weights_unless_reread():
    model = policy("native")
    kept, again = (joined(run(model.decode_slots(reread=reread), 4)) for reread in (False, True))
    assert kept == again  # equal without new weights

    def log_probs(reread):
        model = policy("native")
        slots = model.decode_slots(reread=reread)

        def learn(turn):
            change(model, turn)
            slots.renew()

        samples = run(slots, 2, learn, turns=2)
        return samples[0][0].log_probs, samples[0][1].log_probs, samples[2][0].log_probs

    kept, again = log_probs(reread=False), log_probs(reread=True)
    assert kept[0] == again[0]
    assert kept[1] != again[1]
    assert kept[2] == again[2]  # began under the new weights


@pytest.mark.skipif(why_missing() is not None, reason=f"{why_missing()}")
def test_renew_updates_transposed_weights():
    def made():
        torch.manual_seed(2)
        tokenizer = policy().tokenizer
        sizes = {"n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2}
        config = GPT2Config(vocab_size=len(tokenizer), **sizes, bos_token_id=1, eos_token_id=1)
        model = GPT2LMHeadModel(config)
        return LanguageModel(model=model, tokenizer=tokenizer, decoding=Decoding())

    model, fresh = made(), made()
    slots = model.decode_slots()
    change(model, 1)
    change(fresh, 1)
    slots.renew()

    assert type(slots) is NativeSlots
    assert joined(run(slots, 3)) == joined(run(fresh.decode_slots(), 3))


def test_request_uniforms_agree_with_uniforms():
    whole = Uniforms(5, torch.Generator().manual_seed(11))
    own = RequestUniforms(5, 11)

    expected = [float(whole.at(step)[3]) for step in range(200)]

    assert own.row_numbers(3, 0, 64).tolist() == expected[:64]
    assert len(own._drawn) == 64
    assert own.row_numbers(3, 62, 4).tolist() == expected[62:66]
    assert len(own._drawn) == 128
    assert own.row_numbers(3, 0, 200).tolist() == expected
    assert own.row_numbers(3, 128, 0).tolist() == []


def test_fixed_uniforms_return_their_numbers():
    uniforms = FixedUniforms([torch.tensor([0.1, 0.2]), torch.tensor([0.3])])

    assert uniforms.rows == 2
    assert uniforms.at(0).tolist() == torch.tensor([[0.1], [0.3]]).tolist()
    assert uniforms.steps_from(1, 1).tolist() == torch.tensor([[[0.2], [0.0]]]).tolist()
    assert uniforms.rewind(0) is None
    assert stack_numbers([torch.tensor([1.0])]).tolist() == [[1.0]]


@pytest.mark.parametrize("decode", [NATIVE, "torch"])
def test_row_numbers_of_closed_rows_are_not_reused(decode):
    slots = policy(decode).decode_slots(reread=True)

    assert slots.add([[3], [4]]) == [0, 1]
    slots.close([0])
    assert list(slots.contexts) == [1]
    assert slots.add([[5]]) == [2]
    slots.renew()
    actual = slots.advance({1: torch.tensor([0.5]).double(), 2: torch.tensor([0.5]).double()})
    assert [len(each.tokens) for each in actual.values()] == [1, 1]
    assert slots.contexts[2][0] == 5
    assert len(slots.contexts[2]) == 2


def test_an_external_sampler_engine_has_no_decode_slots():
    model = policy()
    model.sampler_engine = object()

    with pytest.raises(ConfigError, match=r"set sampler_engine=own .* cluster.schedule=fixed"):
        model.decode_slots()
