"""What tests of several concepts share."""

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from rlcomp.engine.decoding import Decoding
from rlcomp.model.build import causal_lm
from rlcomp.model.language_model import LanguageModel


@pytest.fixture(scope="session")
def make_policy() -> Callable[[PreTrainedTokenizerBase], LanguageModel]:
    """An untrained policy that holds 16 tokens, the same each time."""

    def make(tokenizer: PreTrainedTokenizerBase) -> LanguageModel:
        torch.manual_seed(0)
        model = causal_lm(
            tokenizer=tokenizer,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            intermediate_size=24,
            context_length=16,
        )
        return LanguageModel(model=model, tokenizer=tokenizer, decoding=Decoding(temperature=1.0))

    return make
