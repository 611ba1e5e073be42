"""Scoring agrees with the recorded log-probs of generation, for every decoding distribution."""

import itertools

import pytest
import torch

from rlcomp.engine.decoding import Decoding
from rlcomp.model.adapters import lora
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_model
from rlcomp.text.answers import answer_prompts
from rlcomp.text.tokenizer import character_tokenizer

FILTERS = {
    "full": {},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.2},
    "all": {"top_k": 4, "top_p": 0.9, "min_p": 0.05},
}
PROMPTS = {"ragged": ["a", "abba", "ba"], "even": ["ab", "ba"]}


def make_policy(decoding, *, pad_is_eos, adapters, architecture="qwen2", characters="abc"):
    tokenizer = character_tokenizer(characters=characters)
    if pad_is_eos:
        tokenizer.pad_token = tokenizer.eos_token
    model = tiny_model(tokenizer, seed=11, architecture=architecture, num_hidden_layers=2)
    if adapters:
        model = lora(model=model, rank=2, alpha=8.0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
            elif parameter.ndim == 2:
                parameter.mul_(8.0)
    return LanguageModel(model=model, tokenizer=tokenizer, decoding=decoding)


# With these large weights each side is up to 1e-5 from float64.
ROUNDING = 3e-5


def assert_rescored(policy, prompts, group_size, max_new_tokens=5, close=ROUNDING):
    batch = answer_prompts(
        policy,
        prompts,
        group_size=group_size,
        max_new_tokens=max_new_tokens,
        generator=torch.Generator().manual_seed(0),
    )

    with torch.no_grad():
        scored = policy.log_probs(batch)

    torch.testing.assert_close(scored, batch["rollout_log_probs"], atol=close, rtol=0)
    return batch


@pytest.mark.parametrize(
    ("temperature", "filters", "pad_is_eos", "prompts", "adapters"),
    itertools.product([0.3, 1.0, 1.7], FILTERS, [False, True], PROMPTS, [False, True]),
)
def test_sampler_and_scorer_agree(temperature, filters, pad_is_eos, prompts, adapters):
    decoding = Decoding(temperature=temperature, **FILTERS[filters])
    policy = make_policy(decoding, pad_is_eos=pad_is_eos, adapters=adapters)

    batch = assert_rescored(policy, PROMPTS[prompts], group_size=6)

    assert batch["truncated"].any() or temperature < 1
    assert (batch["rollout_log_probs"] < 0).any()


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("adapters", [False, True])
def test_sampler_and_scorer_agree_in_float64(filters, adapters):
    policy = make_policy(Decoding(**FILTERS[filters]), pad_is_eos=True, adapters=adapters)
    policy.model.double()

    assert_rescored(policy, PROMPTS["ragged"], group_size=6, close=1e-11)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gpt2"])
@pytest.mark.parametrize("group_size", [1, 4])
@pytest.mark.parametrize("max_new_tokens", [1, 8])
def test_sampler_and_scorer_agree_for_every_architecture(architecture, group_size, max_new_tokens):
    policy = make_policy(Decoding(), pad_is_eos=False, adapters=False, architecture=architecture)

    assert_rescored(policy, PROMPTS["ragged"], group_size, max_new_tokens)


def test_greedy_sampler_and_scorer_agree():
    policy = make_policy(Decoding(temperature=0), pad_is_eos=False, adapters=False)

    batch = assert_rescored(policy, PROMPTS["ragged"], group_size=2)

    assert not batch["rollout_log_probs"].any()


def test_the_grid_has_stopped_and_truncated_responses():
    policy = make_policy(Decoding(), pad_is_eos=True, adapters=False)

    batch = assert_rescored(policy, PROMPTS["ragged"], group_size=6)

    assert 0 < batch["truncated"].sum() < len(batch["truncated"])
