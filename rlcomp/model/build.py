"""Causal language models: from a config, or from pretrained weights."""

from __future__ import annotations

import difflib

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from rlcomp.check import NonEmptyText, PositiveInt
from rlcomp.errors import ConfigError, DataError, nearest
from rlcomp.model.tokenizer import local_only

_TESTED = ("gpt2", "llama", "qwen2", "qwen3")


def causal_lm(  # noqa: PLR0913
    *,
    tokenizer: PreTrainedTokenizerBase,
    architecture: NonEmptyText = "qwen2",
    hidden_size: PositiveInt,
    num_hidden_layers: PositiveInt,
    num_attention_heads: PositiveInt,
    num_key_value_heads: PositiveInt,
    intermediate_size: PositiveInt,
    context_length: PositiveInt,
    tie_word_embeddings: bool = False,
    vocab_size: PositiveInt | None = None,
) -> PreTrainedModel:
    """A model with random weights (from the global generator), float32, without dropout.

    Args:
        tokenizer: gives the vocabulary and EOS.
        architecture: a transformers model type with a causal head; tested with gpt2, llama, qwen2
            and qwen3.
        hidden_size: width of the residual stream.
        num_hidden_layers: transformer blocks.
        num_attention_heads: must divide ``hidden_size``.
        num_key_value_heads: must divide ``num_attention_heads``; gpt2 needs them equal.
        intermediate_size: width of the feed-forward layer.
        context_length: the most tokens of prompt and response together.
        tie_word_embeddings: share the input embedding with the output head.
        vocab_size: rows of the embedding; the tokenizer's size if not given.

    Raises:
        ConfigError: an unknown architecture, or sizes that do not fit together.
    """
    if architecture not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        close = difflib.get_close_matches(architecture, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
        known = nearest(architecture, {*_TESTED, *close})
        raise ConfigError(f"model: architecture '{architecture}' is not known{known}")
    _check_vocabulary("model", vocab_size or len(tokenizer), tokenizer)
    _check_divides(num_attention_heads, "num_attention_heads", hidden_size, "hidden_size")
    _check_divides(
        num_key_value_heads, "num_key_value_heads", num_attention_heads, "num_attention_heads"
    )
    wanted: dict[str, object] = {
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": num_attention_heads,
        "num_key_value_heads": num_key_value_heads,
        "intermediate_size": intermediate_size,
        "max_position_embeddings": context_length,
        "tie_word_embeddings": tie_word_embeddings,
        "vocab_size": vocab_size or len(tokenizer),
        "head_dim": hidden_size // num_attention_heads,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        # A pad id would freeze that row of the embedding, which may be EOS.
        "pad_token_id": None,
    }
    config = AutoConfig.for_model(architecture, **_fitted(architecture, wanted))
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def _check_vocabulary(owner: str, vocab_size: int, tokenizer: PreTrainedTokenizerBase) -> None:
    if vocab_size < len(tokenizer):
        raise ConfigError(
            f"{owner}: vocab_size is {vocab_size}, but the tokenizer has {len(tokenizer)} tokens: "
            "use the tokenizer that belongs to the model, or a larger vocab_size"
        )


def _check_divides(part: int, part_name: str, whole: int, whole_name: str) -> None:
    if whole % part:
        raise ConfigError(
            f"model: {whole_name} is {whole}, which {part_name} {part} does not divide"
        )


def _fitted(architecture: str, wanted: dict[str, object]) -> dict[str, object]:
    """The settings under the names this architecture knows, and every dropout at 0.

    Raises:
        ConfigError: the architecture has no such setting.
    """
    blank: PreTrainedConfig = AutoConfig.for_model(architecture)
    known = blank.to_dict()
    fitted: dict[str, object] = {
        name: 0.0 for name, value in known.items() if "drop" in name and isinstance(value, float)
    }
    for name, value in wanted.items():
        own = blank.attribute_map.get(name, name)
        if own in known:
            fitted[own] = value
        elif name == "intermediate_size" and "n_inner" in known:
            fitted["n_inner"] = value
        elif name == "num_key_value_heads" and value != wanted["num_attention_heads"]:
            raise ConfigError(
                f"model: {architecture} has one key/value head per attention head: set "
                f"num_key_value_heads to {wanted['num_attention_heads']}, not {value}"
            )
        elif name not in ("num_key_value_heads", "head_dim"):
            raise ConfigError(f"model: architecture '{architecture}' has no setting for {name}")
    return fitted


def load_causal_lm(
    *,
    path: NonEmptyText,
    tokenizer: PreTrainedTokenizerBase,
    context_length: PositiveInt | None,
) -> PreTrainedModel:
    """Pretrained weights, in float32. The config is checked before any weight is read.

    Args:
        path: a folder written by ``save_pretrained``, or a name on the Hugging Face hub.
        tokenizer: the tokenizer that belongs to the model.
        context_length: the most tokens the run will use; null for the model's own limit.

    Raises:
        DataError: no model at the path, or the hub cannot be reached.
        ConfigError: the tokenizer or the context does not fit the model.
    """
    local = local_only(path)
    remedy = "it needs config.json and weights; save one with model.save_pretrained, or go online"
    try:
        config = AutoConfig.from_pretrained(path, local_files_only=local)
    except (OSError, ValueError) as error:
        raise DataError(f"no model at '{path}': {remedy}") from error
    _check_vocabulary(f"model at '{path}'", config.vocab_size, tokenizer)
    limit = config.max_position_embeddings
    if context_length is not None and context_length > limit:
        raise ConfigError(
            f"context_length is {context_length}, but the model at '{path}' holds {limit} tokens: "
            f"set context_length to {limit} or less"
        )
    try:
        return AutoModelForCausalLM.from_pretrained(
            path, config=config, local_files_only=local, dtype=torch.float32
        )
    except OSError as error:
        raise DataError(f"no weights at '{path}': {remedy}") from error
