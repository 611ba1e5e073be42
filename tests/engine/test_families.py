"""Which models the native forward pass reads, and what it says of the others."""

import pytest

from rlcomp.engine.families import why_unsupported
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abc")


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "qwen2", "qwen3"])
def test_the_families_are_known(architecture):
    assert why_unsupported(tiny_model(TOKENIZER, architecture=architecture)) is None


@pytest.mark.parametrize(
    ("architecture", "settings", "reason"),
    [
        ("gpt2", {"add_cross_attention": True}, "it has cross attention"),
        ("gemma", {}, "its class is GemmaForCausalLM"),
    ],
)
def test_another_model_is_told_why_not(architecture, settings, reason):
    model = tiny_model(TOKENIZER, architecture=architecture, overrides=settings)

    assert why_unsupported(model) == reason
