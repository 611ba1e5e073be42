"""Architectures of transformers: sampler and scorer agree, and unsupported ones are refused."""

import pytest
import torch
import transformers

from rlcomp.engine.architectures import why_unsupported
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_model
from rlcomp.text.answers import answer_prompts, encode_answers
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abc")
SIZES = {"num_hidden_layers": 2, "context_length": 32}
OWN = {
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4, "n_head": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "mistral": {"sliding_window": 4},
    "gemma2": {"sliding_window": 4},
    "gemma3_text": {"sliding_window": 4},
    "opt": {"word_embed_proj_dim": 16},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
}
FROM_SIZES = [
    "biogpt", "cohere", "falcon", "gemma", "gemma2", "gemma3_text", "glm", "gpt2", "gpt_bigcode",
    "gpt_neo", "gpt_neox", "gptj", "granite", "llama", "mistral", "mixtral", "nemotron", "olmo",
    "olmo2", "olmoe", "opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3",
    "stablelm", "starcoder2", "xglm",
    "codegen",
]  # fmt: skip
WIDTH = {"vocab_size": 5, "hidden_size": 16}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 24}
BY_CONFIG = {
    "bloom": {"n_layer": 2, "n_head": 2},
    "mpt": {"d_model": 16, "n_layers": 2, "n_heads": 2, "max_seq_len": 32},
    "mamba": {"num_hidden_layers": 2, "state_size": 4},
    "mamba2": {
        "num_hidden_layers": 2, "state_size": 4, "num_heads": 4, "head_dim": 8, "n_groups": 2,
    },
    "qwen3_next": HEADS | {
        "num_hidden_layers": 4, "num_experts": 2, "num_experts_per_tok": 1,
        "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8,
        "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
        "linear_value_head_dim": 8, "head_dim": 8,
    },
    "jamba": HEADS | {
        "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2,
        "mamba_d_state": 4, "mamba_dt_rank": 4,
    },
    "lfm2": HEADS | {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]},
    "falcon_h1": HEADS | {
        "num_hidden_layers": 2, "mamba_d_ssm": 16, "mamba_n_heads": 2, "mamba_d_head": 8,
        "mamba_d_state": 4, "head_dim": 8,
    },
}  # fmt: skip


def by_config(architecture, **settings):
    config = transformers.AutoConfig.for_model(
        architecture, **WIDTH | settings, pad_token_id=None, eos_token_id=1
    )
    return transformers.AutoModelForCausalLM.from_config(config)


def build(architecture):
    if architecture in BY_CONFIG:
        torch.manual_seed(3)
        return by_config(architecture, **BY_CONFIG[architecture])
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    return tiny_model(
        TOKENIZER,
        seed=3,
        architecture=architecture,
        overrides=OWN.get(architecture),
        **SIZES | (heads if architecture == "codegen" else {}),
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("architecture", [*FROM_SIZES, *BY_CONFIG])
def test_sampler_and_scorer_agree_in(architecture):
    model = build(architecture)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(4.0)
    policy = LanguageModel(model=model, tokenizer=TOKENIZER, decoding=Decoding())

    batch = answer_prompts(
        policy,
        ["a", "abbacab", "ba"],
        group_size=3,
        max_new_tokens=8,
        generator=torch.Generator().manual_seed(0),
    )
    with torch.no_grad():
        scored = policy.log_probs(batch)

    torch.testing.assert_close(scored, batch["rollout_log_probs"], atol=1e-5, rtol=0)
    assert batch["response_mask"].sum() > 20


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("architecture", "settings", "words"),
    [
        ("bert", HEADS | {"num_hidden_layers": 1}, r"\(bert\) is not causal"),
        ("openai-gpt", {"n_layer": 1, "n_head": 2}, "returns no KV cache"),
        ("rwkv", {"num_hidden_layers": 2}, "returns no KV cache"),
    ],
)
def test_models_that_cannot_be_sampled_from_are_refused(architecture, settings, words):
    torch.manual_seed(3)
    model = by_config(architecture, **settings)

    with pytest.raises(ConfigError, match=words):
        LanguageModel(model=model, tokenizer=TOKENIZER, decoding=Decoding())


@pytest.mark.filterwarnings("ignore")
def test_an_encoder_family_with_is_decoder_is_accepted():
    model = by_config("bert", **HEADS, num_hidden_layers=1, is_decoder=True)

    assert (
        LanguageModel(model=model, tokenizer=TOKENIZER, decoding=Decoding()).context_length == 512
    )


def test_building_a_policy_draws_no_random_numbers():
    model = build("llama")
    before = torch.get_rng_state()

    LanguageModel(model=model, tokenizer=TOKENIZER, decoding=Decoding())

    assert torch.equal(torch.get_rng_state(), before)


def told(error: Exception) -> str:
    """Return an error with its notes; before Python 3.11 they are in the message."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


def test_an_error_of_the_probe_names_the_model():
    # rotary_dim 64 is gptj's own default; its heads are 8 wide here.
    model = tiny_model(TOKENIZER, architecture="gptj", **SIZES)

    with pytest.raises(RuntimeError) as caught:
        LanguageModel(model=model, tokenizer=TOKENIZER, decoding=Decoding())
    assert "the model (gptj) failed to read four tokens" in told(caught.value)


@pytest.mark.parametrize("architecture", ["bloom", "mamba"])
def test_a_model_without_positions_has_no_context_limit(architecture):
    policy = LanguageModel(model=build(architecture), tokenizer=TOKENIZER, decoding=Decoding())

    assert policy.context_length is None
    batch = encode_answers(policy, ["a" * 3000], ["b"])
    assert batch["tokens"].shape == (1, 3002)


@pytest.mark.parametrize(("architecture", "limit"), [("mpt", 32), ("gpt2", 32), ("opt", 32)])
def test_the_context_length_has_several_names_in_configs(architecture, limit):
    policy = LanguageModel(model=build(architecture), tokenizer=TOKENIZER, decoding=Decoding())

    assert policy.context_length == limit


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "qwen2", "qwen3"])
def test_supported_families_have_no_reason(architecture):
    assert why_unsupported(tiny_model(TOKENIZER, architecture=architecture)) is None


@pytest.mark.parametrize(
    ("architecture", "settings", "reason"),
    [
        ("gpt2", {"add_cross_attention": True}, "it has cross attention"),
        ("gemma", {}, "its class is GemmaForCausalLM"),
    ],
)
def test_why_unsupported_gives_the_reason(architecture, settings, reason):
    model = tiny_model(TOKENIZER, architecture=architecture, overrides=settings)

    assert why_unsupported(model) == reason
