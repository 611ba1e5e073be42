"""The packed decode loop against the fallback, and its savings."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

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
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from rlcomp.engine import cache
from rlcomp.engine import decode_packed as native
from rlcomp.engine import decode_transformers as engine
from rlcomp.engine.architectures import layers, probe
from rlcomp.engine.cache import Cache
from rlcomp.engine.decoding import Decoding, mask_contains
from rlcomp.engine.draw import draw_tokens
from rlcomp.engine.fused import FusedBlock
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.transformer import Transformer
from rlcomp.engine.uniforms import Uniforms
from rlcomp.model.adapters import adapters_off, lora

FAMILIES = ["llama", "qwen2", "qwen3", "gpt2"]
VOCABULARY = 24
EOS = 3
PROMPTS = [[1, 4, 5], [2], [7, 8, 9, 10, 11, 12, 4], [1, 4, 5]]


@pytest.fixture(autouse=True)
def norms_in_full_precision(monkeypatch):
    """Transformers rounds norms to float32 even in float64 models: replace them."""

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * (wide * scale).to(x.dtype)

    for norm in (LlamaRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm):
        monkeypatch.setattr(norm, "forward", forward)


@pytest.fixture(
    autouse=True, params=[0, 8000, 2**21], ids=["shared", "shared_then_copied", "copied"]
)
def prompts_held(request, monkeypatch):
    """Prompts shared by their rows, copied when few rows are left, or copied at once."""
    monkeypatch.setattr(cache, "_COPY_BYTES", request.param)


def make_model(family, dtype=torch.float64, **changed):
    torch.manual_seed(0)
    shape = dict(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        head_dim=8,
        max_position_embeddings=128,
        bos_token_id=0,
        eos_token_id=EOS,
        # Large weights: small ones make every distribution nearly uniform.
        initializer_range=0.2,
    )
    if family == "gpt2":
        config = GPT2Config(
            vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=128,
            initializer_range=0.2, bos_token_id=0, eos_token_id=EOS,
        )  # fmt: skip
        model = GPT2LMHeadModel(config)
    else:
        kinds = {
            "llama": (LlamaConfig, LlamaForCausalLM),
            "qwen2": (Qwen2Config, Qwen2ForCausalLM),
            "qwen3": (Qwen3Config, Qwen3ForCausalLM),
        }
        config, kind = kinds[family]
        model = kind(config(**{**shape, **changed}))
    # Norm weights and biases that have an effect.
    for name, parameter in model.named_parameters():
        if "bias" in name or "norm" in name or "ln_" in name:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return model.to(dtype).eval()


def wrapped(model, kernel="torch"):
    return Transformer(model, layers, kernel)


PLAIN = Decoding()


def arguments(
    decoding=PLAIN, group_size=3, max_new_tokens=40, stops=(EOS,), seed=5, prompts=PROMPTS
):
    rows = len(prompts) * group_size
    return dict(
        group_size=group_size,
        stop=StopRule(stops, [max_new_tokens] * rows),
        draw=partial(draw_tokens, decoding=decoding, suppressed=None),
        uniforms=Uniforms(rows, torch.Generator().manual_seed(seed)),
    )


def both(model, prompts=PROMPTS, **changed):
    changed["prompts"] = prompts
    ours = native.decode(wrapped(model), prompts, **arguments(**changed))
    theirs = engine.decode(model, probe(model), prompts, **arguments(**changed))
    return ours, theirs


def assert_same(ours, theirs, atol=1e-10):
    """Check that responses are equal up to their ends."""
    assert torch.equal(ours.lengths, theirs.lengths)
    assert torch.equal(ours.truncated, theirs.truncated)
    within = torch.arange(ours.tokens.shape[1]) < ours.lengths[:, None]
    assert ours.tokens.shape == theirs.tokens.shape
    assert torch.equal(ours.tokens[within], theirs.tokens[within])
    torch.testing.assert_close(ours.log_probs[within], theirs.log_probs[within], atol=atol, rtol=0)


def rescored(model, prompts, sampled, group_size):
    """Return the log-probs of each response by a forward pass over its row."""
    actual = []
    for row, (tokens, length) in enumerate(zip(sampled.tokens, sampled.lengths, strict=True)):
        prompt = torch.tensor(prompts[row // group_size])
        answer = tokens[:length]
        logits = model(torch.cat([prompt, answer])[None]).logits[0, len(prompt) - 1 : -1]
        actual.append(logits.log_softmax(-1).gather(1, answer[:, None]).squeeze(1))
    return torch.cat(actual).detach()


def recorded(sampled):
    within = torch.arange(sampled.tokens.shape[1]) < sampled.lengths[:, None]
    return sampled.log_probs[within]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("group_size", [1, 3, 8])
def test_packed_loop_samples_the_tokens_of_the_fallback(family, group_size):
    ours, theirs = both(make_model(family), group_size=group_size)

    assert len(set(ours.lengths.tolist())) > 1
    assert_same(ours, theirs)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_log_probs_agree_with_a_forward_pass(family, dtype, atol):
    model = make_model(family, dtype)

    sampled = native.decode(wrapped(model), PROMPTS, **arguments())

    expected = rescored(model, PROMPTS, sampled, 3)
    torch.testing.assert_close(recorded(sampled), expected, atol=atol, rtol=0)


@pytest.mark.parametrize("changed", [{"num_key_value_heads": 1}, {"num_key_value_heads": 4}])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_grouped_and_multi_head_attention(family, changed):
    assert_same(*both(make_model(family, **changed)))


def test_a_model_of_one_layer():
    assert_same(*both(make_model("llama", num_hidden_layers=1)))


def test_biases_of_all_linear_layers_are_used():
    assert_same(*both(make_model("llama", attention_bias=True, mlp_bias=True)))


@pytest.mark.parametrize(
    "decoding",
    [
        Decoding(temperature=0),
        Decoding(temperature=0.7, top_k=5),
        Decoding(top_p=0.8),
        Decoding(min_p=0.1),
    ],
)
def test_every_decoding_distribution_agrees_with_the_fallback(decoding):
    assert_same(*both(make_model("qwen2"), decoding=decoding))


def test_one_token_is_the_minimum():
    ours, theirs = both(make_model("llama"), max_new_tokens=1)

    assert ours.tokens.shape == (12, 1)
    assert_same(ours, theirs)


def test_rows_without_a_stop_token_are_truncated():
    # No token is 99.
    ours, theirs = both(make_model("llama"), stops=(99,), max_new_tokens=70)

    assert ours.truncated.all()
    assert ours.lengths.tolist() == [70] * 12
    assert_same(ours, theirs)


def ending(step):
    """Return a draw that ends every row at a step."""
    calls = []

    def draw(logits, uniform):
        calls.append(1)
        drawn = draw_tokens(logits, uniform, decoding=Decoding(), suppressed=None)
        return replace(drawn, tokens=torch.full_like(drawn.tokens, EOS if len(calls) > step else 1))

    return draw


@pytest.mark.parametrize("step", [0, 2])
def test_rows_may_all_end_at_once(step):
    model = make_model("llama")

    ours = native.decode(wrapped(model), PROMPTS, **{**arguments(), "draw": ending(step)})
    theirs = engine.decode(model, probe(model), PROMPTS, **{**arguments(), "draw": ending(step)})

    assert ours.lengths.tolist() == [step + 1] * 12
    assert not ours.truncated.any()
    assert_same(ours, theirs)


def test_the_generator_ends_in_the_state_of_the_fallback():
    model = make_model("llama")
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]

    drawn = [Uniforms(3 * len(PROMPTS), generator) for generator in generators]

    native.decode(wrapped(model), PROMPTS, **{**arguments(), "uniforms": drawn[0]})
    engine.decode(model, probe(model), PROMPTS, **{**arguments(), "uniforms": drawn[1]})

    assert torch.equal(*(generator.get_state() for generator in generators))


def test_recorded_masks_belong_to_their_tokens():
    decoding = Decoding(top_p=0.8, replay=True)

    ours, theirs = both(make_model("llama"), decoding=decoding)

    within = torch.arange(ours.tokens.shape[1]) < ours.lengths[:, None]
    assert ours.sampling_mask.shape == (12, ours.tokens.shape[1], VOCABULARY // 8)
    assert torch.equal(ours.sampling_mask[within], theirs.sampling_mask[within])
    assert mask_contains(ours.sampling_mask[within], ours.tokens[within]).all()


def adapted(family):
    model = lora(model=make_model(family), rank=2, alpha=4.0)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = 0.3 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("off", [False, True])
def test_enabled_adapters_take_effect(family, off):
    model = adapted(family)
    weights = {name: value.clone() for name, value in model.state_dict().items()}

    with adapters_off(model) if off else nullcontext():
        sampled = native.decode(wrapped(model), PROMPTS, **arguments())
        expected = rescored(model, PROMPTS, sampled, 3)

    torch.testing.assert_close(recorded(sampled), expected, atol=1e-10, rtol=0)
    other = rescored(model, PROMPTS, sampled, 3)
    assert off != torch.allclose(recorded(sampled), other)
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


def rows_of_linears(monkeypatch):
    calls = []
    finish = FusedBlock.finish
    monkeypatch.setattr(
        FusedBlock,
        "finish",
        lambda self, x, attended: calls.append(len(x)) or finish(self, x, attended),
    )
    return calls


def test_finished_rows_are_dropped(monkeypatch):
    calls = rows_of_linears(monkeypatch)

    sampled = native.decode(wrapped(make_model("llama")), PROMPTS, **arguments(group_size=8))

    # Every second of two layers; the first is the prefill. A row is computed up to its last token.
    steps = calls[::2][1:]
    going = [int((sampled.lengths > step + 1).sum()) for step in range(len(steps))]
    assert min(going) < 8 < max(going)
    sizes = [1 << (n - 1).bit_length() if n < 8 else 8 * -(-n // 8) for n in going]
    assert steps == sizes


def test_each_distinct_prompt_is_computed_once(monkeypatch):
    calls = []
    project = FusedBlock.project
    monkeypatch.setattr(
        FusedBlock,
        "project",
        lambda self, x, rotation: calls.append(len(x)) or project(self, x, rotation),
    )

    native.decode(wrapped(make_model("llama")), PROMPTS, **arguments(group_size=8))

    # 3 + 1 + 7 tokens: the fourth prompt is the first.
    assert calls[:2] == [11, 11]
    assert max(calls[2:]) <= 32


def test_prompts_of_finished_rows_are_dropped(monkeypatch):
    shapes = []
    keep = Cache.keep

    def spy(self, rows):
        keep(self, rows)
        keys = self._prompts[0][0]
        shapes.append((len(set(self._owners)), keys.shape[0], keys.shape[2]))

    monkeypatch.setattr(cache, "_COPY_BYTES", 0)
    monkeypatch.setattr(Cache, "keep", spy)

    native.decode(wrapped(make_model("llama")), PROMPTS, **arguments())

    assert all(left == held for left, held, _ in shapes)
    # Of three distinct prompts.
    assert shapes[-1][0] < 3


@pytest.mark.parametrize("tokens", [1, 8])
def test_prefill_in_chunks_gives_the_same_result(monkeypatch, tokens):
    monkeypatch.setattr(native, "_PREFILL_TOKENS", tokens)

    assert_same(*both(make_model("gpt2")))


@pytest.mark.parametrize("prompts", [1, 2])
def test_decoding_in_several_passes_gives_the_same_responses(monkeypatch, prompts):
    # 3 answers of 40 tokens and a prompt of 7; 2 layers of 2 * 2 heads of 8 numbers of 8 bytes.
    budget = prompts * (6 * 40 + 7) * 512
    monkeypatch.setattr(native, "cache_budget", lambda device: budget)
    loops = []
    start = native.DecodeLoop.__init__
    monkeypatch.setattr(
        native.DecodeLoop,
        "__init__",
        lambda self, *given: loops.append(1) or start(self, *given),
    )

    assert_same(*both(make_model("llama"), decoding=Decoding(top_p=0.9, replay=True)))
    assert len(loops) > 1


@pytest.mark.parametrize(("token_bytes", "passes"), [(2**26, [2]), (2**26 + 1, [1, 1])])
def test_a_pass_stays_within_the_memory_budget(token_bytes, passes):
    # Two prompts up to the longest, of 4 tokens, and three answers of 8: 32 tokens.
    groups = {(1, 2, 3, 4): [0], (5,): [1, 2]}

    assert [len(some) for some in native.split_by_memory(groups, 8, token_bytes, 2**31)] == passes


def test_a_model_in_half_precision_keeps_its_dtype():
    model = make_model("qwen3", torch.bfloat16)

    sampled = native.decode(wrapped(model), PROMPTS, **arguments())

    # bfloat16 has three decimal digits, and log-probs here go down to -10.
    assert sampled.log_probs.dtype == torch.float32
    expected = rescored(model.float(), PROMPTS, sampled, 3)
    torch.testing.assert_close(recorded(sampled), expected, atol=0.3, rtol=0)


@pytest.mark.parametrize("large", [1, 2**30])
@pytest.mark.parametrize(("kernel", "atol"), [("torch", 1e-5), ("onednn", 1e-5), ("bfloat16", 0.3)])
def test_every_kernel_agrees_to_its_precision(monkeypatch, kernel, atol, large):
    monkeypatch.setattr("rlcomp.engine.fused._LARGE", large)
    model = make_model("gpt2", torch.float32)

    sampled = native.decode(wrapped(model, kernel), PROMPTS, **arguments())

    expected = rescored(model, PROMPTS, sampled, 3)
    torch.testing.assert_close(recorded(sampled), expected, atol=atol, rtol=0)
    assert (kernel == "bfloat16") == bool((recorded(sampled) - expected).abs().max() > 1e-4)


def test_the_cache_grows_with_a_long_response(monkeypatch):
    monkeypatch.setattr("rlcomp.engine.cache._STEP", 2)

    assert_same(*both(make_model("llama"), stops=(99,), max_new_tokens=33))
