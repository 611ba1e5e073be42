"""A tiny language model with random weights, the same each time."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.model.adapters import lora
from rlcomp.model.build import causal_lm
from rlcomp.model.language_model import LanguageModel
from rlcomp.text.tokenizer import character_tokenizer

_SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "context_length": 16,
}


def tiny_model(
    tokenizer: PreTrainedTokenizerBase,
    *,
    seed: int = 0,
    scale: float = 1.0,
    vector_scale: float = 1.0,
    rank: int = 0,
    **sizes: Any,  # noqa: ANN401
) -> PreTrainedModel:
    """Create an untrained model of some thousand weights, in eval mode.

    Args:
        tokenizer: gives the vocabulary and EOS.
        seed: seed of torch's global generator, set before the weights are drawn.
        scale: multiplies every matrix; with 4 or more, the distributions are far from uniform.
        vector_scale: multiplies every vector: weights of norms, and biases.
        rank: rank of trainable LoRA adapters, with ``alpha`` twice as large; 0 for none.
        sizes: arguments of :func:`rlcomp.model.build.causal_lm`; the default is one layer, 16 wide,
            with two heads and 16 tokens of context.

    Examples:
        >>> model = tiny_model(character_tokenizer(characters="abc"), num_hidden_layers=2)
        >>> model.num_parameters()
        4688
    """
    torch.manual_seed(seed)
    model = causal_lm(tokenizer=tokenizer, **_SIZES | sizes)
    factors = {1: vector_scale, 2: scale}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factors.get(parameter.ndim, 1.0))
    if rank:
        model = lora(model=model, rank=rank, alpha=2.0 * rank)
    return model.eval()


def tiny_policy(
    characters: str = "0123456789+=>",
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    decoding: Decoding | None = None,
    engine: Engine = AUTO,
    **model: Any,  # noqa: ANN401
) -> LanguageModel:
    """Create a policy of :func:`tiny_model`.

    Args:
        characters: the alphabet, one token each.
        tokenizer: replaces ``characters``.
        decoding: the distribution to sample from; by default temperature 1.
        engine: the compute engine.
        model: arguments of :func:`tiny_model`.

    Examples:
        >>> policy = tiny_policy("abc", context_length=64, decoding=Decoding(temperature=0.8))
        >>> policy.context_length, len(policy.tokenizer)  # <pad> and <eos> as well
        (64, 5)
    """
    tokenizer = tokenizer or character_tokenizer(characters=characters)
    return LanguageModel(
        model=tiny_model(tokenizer, **model),
        tokenizer=tokenizer,
        decoding=decoding or Decoding(),
        engine=engine,
    )
