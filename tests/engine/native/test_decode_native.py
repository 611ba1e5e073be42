"""The native decode loop against the torch loop, and against the forward pass of transformers."""

import threading

import pytest
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rlcomp.engine import decode_native, decode_packed
from rlcomp.engine.architectures import layers
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.transformer import Transformer
from rlcomp.engine.uniforms import Uniforms

EOS = 1
LLAMAS = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}
# Prompts of one token, equal ones, one of more than two pages of 32 tokens.
PROMPTS = [[5, 6, 7, 8], [9], [5, 6, 7, 8], [3, 4] * 35, [2] * 32, [10] * 33]


def make_model(family, vocabulary=29, **changed):
    torch.manual_seed(0)
    # None of head size 6 and inputs 20 and 36 is a multiple of the vector size.
    shape = dict(
        vocab_size=vocabulary, hidden_size=20, intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=6, max_position_embeddings=160,
        initializer_range=0.3,
    )  # fmt: skip
    if family == "gpt2":
        sizes = dict(n_embd=20, n_layer=2, n_head=4, n_positions=160, initializer_range=0.3)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, **sizes))
    else:
        config, kind = LLAMAS[family]
        model = kind(config(**{**shape, **changed}))
    for name, parameter in model.named_parameters():
        if "bias" in name or "norm" in name or "ln_" in name:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return model.eval()


def decoded(
    loop, model, prompts=PROMPTS, group=3, new=40, stops=(EOS,), seed=5, draw=None, limits=None
):
    rows = len(prompts) * group
    uniforms = Uniforms(rows, torch.Generator().manual_seed(seed))
    actual = loop.decode(
        Transformer(model, layers, "torch"),
        prompts,
        group_size=group,
        stop=StopRule(stops, limits or [new] * rows),
        draw=draw or TokenDraw(Decoding()),
        uniforms=uniforms,
    )
    return actual, uniforms.generator.get_state()


def response_mask(found):
    return torch.arange(found.tokens.shape[1]) < found.lengths[:, None]


def check(model, atol=2e-5, **changed):
    """Check responses and the final state of the generator. Logits reach 30: ten times rounding."""
    (ours, state), (theirs, expected) = (
        decoded(loop, model, **changed) for loop in (decode_native, decode_packed)
    )
    assert torch.equal(ours.lengths, theirs.lengths)
    assert torch.equal(ours.truncated, theirs.truncated)
    assert ours.tokens.shape == theirs.tokens.shape
    inside = response_mask(theirs)
    assert torch.equal(ours.tokens[inside], theirs.tokens[inside])
    torch.testing.assert_close(ours.log_probs[inside], theirs.log_probs[inside], atol=atol, rtol=0)
    assert torch.equal(state, expected)
    return ours


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gpt2"])
def test_every_family_samples_the_tokens_of_the_torch_loop(family, each):
    actual = check(make_model(family))

    assert len(actual.lengths.unique()) > 3


@pytest.mark.parametrize(
    "changed",
    [
        {"attention_bias": True, "mlp_bias": True},
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1},
        {"head_dim": 32, "hidden_size": 128, "initializer_range": 0.1},
        {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}},
        {"tie_word_embeddings": True},
    ],
)
def test_shapes_and_settings_of_the_architecture(changed, each):
    check(make_model("llama", **changed))


@pytest.mark.parametrize("vocabulary", [256, 257, 700])
def test_a_large_vocabulary_is_drawn_by_blocks(vocabulary, each):
    check(make_model("llama", vocabulary))


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1e30])
def test_temperatures_and_suppressed_tokens(temperature, each):
    suppressed = torch.arange(29) % 7 == 3
    actual = check(
        make_model("qwen2"), draw=TokenDraw(Decoding(temperature=temperature), suppressed), new=20
    )

    assert not suppressed[actual.tokens[response_mask(actual)]].any()


def test_rows_end_at_their_own_limits_or_at_the_first_token(native):
    limits = [1, 2, 3] * len(PROMPTS)
    actual = check(make_model("llama"), limits=limits, stops=())
    assert actual.lengths.tolist() == limits
    assert actual.truncated.all()

    every = check(make_model("llama"), stops=range(29))
    assert every.lengths.tolist() == [1] * 18
    assert not every.truncated.any()


def test_prompts_beyond_the_memory_budget_are_decoded_in_several_passes(native, monkeypatch):
    whole, _ = decoded(decode_native, make_model("llama"))
    calls = []
    rollout = decode_native._rollout
    monkeypatch.setattr(decode_native, "_rollout", lambda *a: calls.append(a) or rollout(*a))
    monkeypatch.setattr(decode_native, "cache_budget", lambda _: 1)

    parts, _ = decoded(decode_native, make_model("llama"))

    assert len(calls) == 5  # distinct prompts
    assert torch.equal(parts.tokens, whole.tokens)
    assert torch.equal(parts.log_probs, whole.log_probs)


def test_a_row_is_bitwise_independent_of_other_rows(each):
    model = make_model("qwen3")
    whole, _ = decoded(decode_native, model, group=1)
    numbers = torch.rand(40, len(PROMPTS), 1, dtype=torch.float64,
                         generator=torch.Generator().manual_seed(5))  # fmt: skip
    for row, prompt in enumerate(PROMPTS):
        uniforms = Uniforms(1, torch.Generator())
        uniforms._drawn = [*numbers[:, row : row + 1]]
        uniforms._before = (0, torch.Generator().get_state())
        alone = decode_native.decode(
            Transformer(model, layers, "torch"), [prompt], group_size=1,
            stop=StopRule([EOS], [40]), draw=TokenDraw(Decoding()), uniforms=uniforms,
        )  # fmt: skip
        length = int(whole.lengths[row])
        assert alone.tokens[0].tolist() == whole.tokens[row, :length].tolist()
        assert alone.log_probs[0].tolist() == whole.log_probs[row, :length].tolist()


@torch.no_grad()
@pytest.mark.parametrize("size", [20, 512])
def test_log_probs_agree_with_a_forward_pass(size, each):
    wide = {"hidden_size": size, "intermediate_size": 2 * size, "initializer_range": 1 / size**0.5}
    model = make_model("llama", 3000, **wide)
    model.get_input_embeddings().weight.normal_()
    model.get_input_embeddings().weight[:, 0] = 8.0  # one large feature: sums lose digits
    actual, _ = decoded(decode_native, model, group=1, new=12)
    for row, prompt in enumerate(PROMPTS):
        response = actual.tokens[row, : actual.lengths[row]].tolist()
        logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
        plain = logits.log_softmax(-1)[range(len(response)), response]
        torch.testing.assert_close(actual.log_probs[row, : len(response)], plain, atol=1e-5, rtol=0)


def test_nan_weights_give_nan_log_probs_and_valid_tokens(native):
    model = make_model("llama")
    model.lm_head.weight.data[7] = torch.nan

    actual, _ = decoded(decode_native, model, new=3)

    assert actual.log_probs.isnan().all()
    assert ((actual.tokens >= 0) & (actual.tokens < 29)).all()


def test_changed_weights_take_effect(native):
    model = make_model("llama")
    before, _ = decoded(decode_native, model, seed=1)
    model.lm_head.weight.data.mul_(-1.0)

    check(model, seed=1)
    after, _ = decoded(decode_native, model, seed=1)
    assert before.tokens.tolist() != after.tokens.tolist()


def test_decoding_releases_the_gil(native):
    model = make_model("llama", 20_000, hidden_size=256, head_dim=64)
    done, counted = threading.Event(), 0

    def rollout():
        decoded(decode_native, model, stops=(), new=30)
        done.set()

    thread = threading.Thread(target=rollout)
    thread.start()
    while not done.wait(0.001):
        counted += 1
    thread.join()

    assert counted > 20
