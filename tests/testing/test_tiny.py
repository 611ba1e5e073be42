"""Policies to try parts with: the same each time, and what is asked for."""

import subprocess
import sys

import pytest
import torch

import rlcomp.testing
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.model.adapters import has_adapters
from rlcomp.model.build import causal_lm
from rlcomp.testing import tiny_model, tiny_policy
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

TOKENIZER = character_tokenizer(characters="abc")


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_the_seed_is_set_right_before_the_weights_are_drawn():
    torch.manual_seed(3)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2}
    more = {"num_hidden_layers": 2, "intermediate_size": 24, "context_length": 16}
    expected = causal_lm(tokenizer=TOKENIZER, **sizes, **more)
    state = torch.get_rng_state()

    policy = tiny_policy("abc", seed=3, hidden_size=8, num_hidden_layers=2)

    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(weights(policy.model), weights(expected))
    assert not torch.equal(weights(tiny_model(TOKENIZER)), weights(tiny_model(TOKENIZER, seed=1)))


def test_matrices_and_vectors_are_scaled():
    plain, scaled = tiny_model(TOKENIZER), tiny_model(TOKENIZER, scale=4.0, vector_scale=3.0)

    for before, after in zip(plain.parameters(), scaled.parameters(), strict=True):
        assert torch.equal(after, before * (3.0 if before.ndim == 1 else 4.0))


def test_adapters_have_the_rank():
    assert not has_adapters(tiny_model(TOKENIZER))

    adapted = tiny_model(TOKENIZER, rank=2)

    trained = [p for p in adapted.parameters() if p.requires_grad]
    assert {min(parameter.shape) for parameter in trained} == {2}
    assert not adapted.training


def test_a_policy_has_the_settings():
    tokenizer, decoding = byte_tokenizer(), Decoding(temperature=0.8)
    engine = Engine(forward="transformers")

    policy = tiny_policy(tokenizer=tokenizer, decoding=decoding, engine=engine, context_length=32)

    assert (policy.tokenizer, policy.decoding) == (tokenizer, decoding)
    assert (policy.packs, policy.context_length) == (False, 32)
    assert tiny_policy().decoding == Decoding()


def test_transformers_is_imported_when_a_model_is_first_asked_for():
    code = "import rlcomp.testing, sys; assert 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match=r"'rlcomp\.testing' has no attribute 'huge_model'"):
        _ = rlcomp.testing.huge_model
