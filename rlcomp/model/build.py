"""Causal language models from a config or from pretrained weights."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.errors import ConfigError, DataError, nearest
from rlcomp.model.fit_checks import check_context, check_same_tokens, check_vocabulary
from rlcomp.model.pretrained import (
    MAX_PARTS,
    check_filled,
    context_limit,
    read_config,
    read_weights,
)
from rlcomp.text.folder import folder_errors
from rlcomp.text.tokenizer import load_tokenizer

# Names of a setting in architectures whose attribute_map does not list them.
_ALIASES = {
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size"),
    "max_position_embeddings": ("max_seq_len",),
}
# Architectures that the message about an unknown one suggests.
_SUGGESTED = ("gpt2", "llama", "qwen2", "qwen3")


def causal_lm(  # noqa: PLR0913
    *,
    tokenizer: PreTrainedTokenizerBase,
    architecture: NonEmptyText = "qwen2",
    hidden_size: PositiveInt,
    num_hidden_layers: PositiveInt,
    num_attention_heads: PositiveInt = 4,
    num_key_value_heads: PositiveInt = 4,
    intermediate_size: PositiveInt,
    context_length: PositiveInt,
    tie_word_embeddings: bool = False,
    vocab_size: PositiveInt | None = None,
    overrides: dict[str, Any] | None = None,
) -> PreTrainedModel:
    """Create a model with random weights (from the global generator), float32, without dropout.

    Args:
        tokenizer: gives the vocabulary and EOS.
        architecture: a transformers model type with a causal head;
            ``tests/engine/test_architectures.py`` lists the tested ones. Types without these
            sizes (bloom, mpt, recurrent ones) are refused.
        hidden_size: width of the residual stream.
        num_hidden_layers: number of transformer blocks.
        num_attention_heads: must divide ``hidden_size``.
        num_key_value_heads: must divide ``num_attention_heads``, and equal it for gpt2.
        intermediate_size: width of the feed-forward layer.
        context_length: maximum number of tokens of prompt and response together.
        tie_word_embeddings: share the input embedding with the output head.
        vocab_size: rows of the embedding; by default the size of the tokenizer.
        overrides: settings of the architecture's own config, which override all others
            (``{sliding_window: 8}``).

    Raises:
        ConfigError: an unknown architecture or setting, a vocabulary smaller than the tokenizer's,
            more than 10,000 layers, or sizes that do not fit together.
    """
    _check_architecture(architecture)
    if num_hidden_layers > MAX_PARTS:
        raise ConfigError(
            f"model: num_hidden_layers is {num_hidden_layers}, more than {MAX_PARTS:,}: set fewer"
        )
    check_vocabulary("model", vocab_size or len(tokenizer), tokenizer)
    _check_divides(num_attention_heads, "num_attention_heads", hidden_size, "hidden_size")
    _check_divides(
        num_key_value_heads, "num_key_value_heads", num_attention_heads, "num_attention_heads"
    )
    settings: dict[str, object] = {
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
        # transformers freezes the embedding of a pad id; EOS may have the same id.
        "pad_token_id": None,
    }
    return _from_settings(
        architecture, _translate_settings(architecture, settings, overrides or {})
    )


def _check_architecture(architecture: str) -> None:
    if architecture not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        close = difflib.get_close_matches(architecture, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
        known = nearest(architecture, {*_SUGGESTED, *close})
        raise ConfigError(f"model: architecture '{architecture}' is not known{known}")


def _from_settings(architecture: str, settings: dict[str, object]) -> PreTrainedModel:
    try:
        config = AutoConfig.for_model(architecture, **settings)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except Exception as error:  # transformers checks configs with error classes of its own
        raise ConfigError(
            f"model: architecture '{architecture}' refuses these settings: {error}"
        ) from error


def _check_divides(part: int, part_name: str, whole: int, whole_name: str) -> None:
    if whole % part:
        raise ConfigError(
            f"model: {whole_name} is {whole}, which {part_name} {part} does not divide"
        )


def _translate_settings(
    architecture: str, settings: dict[str, object], overrides: dict[str, Any]
) -> dict[str, object]:
    """Return the settings by their names in an architecture, with every dropout at 0.

    Raises:
        ConfigError: the architecture has no such setting.
    """
    blank: PreTrainedConfig = AutoConfig.for_model(architecture)
    known = blank.to_dict()
    translated: dict[str, object] = {
        name: 0.0 for name, value in known.items() if "drop" in name and isinstance(value, float)
    }
    for name, value in settings.items():
        setting = _setting_name(blank, known, name)
        if setting is not None:
            translated[setting] = value
        elif name == "num_key_value_heads" and value != settings["num_attention_heads"]:
            raise ConfigError(
                f"model: {architecture} has one key/value head per attention head: set "
                f"num_key_value_heads to {settings['num_attention_heads']}, not {value}"
            )
        elif name not in ("num_key_value_heads", "head_dim"):
            raise ConfigError(
                f"model: architecture '{architecture}' has no setting for {name}: choose another "
                "one, or save a model of it with save_pretrained and use model=pretrained"
            )
    for name, value in overrides.items():
        if name not in {*known, *blank.attribute_map}:
            raise ConfigError(
                f"model: overrides.{name} is no setting of '{architecture}'{nearest(name, known)}"
            )
        translated[name] = value
    return translated


def _setting_name(blank: PreTrainedConfig, known: Collection[str], name: str) -> str | None:
    """Return the architecture's name of a setting; None if the architecture lacks the setting."""
    candidates = (blank.attribute_map.get(name, name), *_ALIASES.get(name, ()))
    listed = next((candidate for candidate in candidates if candidate in known), None)
    # Every config accepts these settings, even if it does not list them.
    is_general = name.endswith("_token_id") or name == "max_position_embeddings"
    return name if listed is None and is_general else listed


def load_causal_lm(
    *,
    path: NonEmptyText,
    tokenizer: PreTrainedTokenizerBase,
    context_length: PositiveInt | None,
    dtype: Literal["float32", "bfloat16"] = "float32",
) -> PreTrainedModel:
    """Load pretrained weights; check the config before any weight is read.

    transformers does not train the embedding of a pad token; here it is trained, because the pad
    token may be EOS.

    Args:
        path: a folder written by ``save_pretrained``, or a name on the Hugging Face hub.
        tokenizer: the tokenizer that belongs to the model.
        context_length: maximum number of tokens of the run; null: the model's own limit.
        dtype: dtype of the weights.

    Raises:
        DataError: there is no readable model at the path; the hub cannot be reached; or the weights
            do not fill the model.
        ConfigError: the tokenizer or the context does not fit, or the model embeds preferences.
    """
    remedy = (
        "it needs config.json and weights; save one with model.save_pretrained, or name a run's "
        "directory"
    )
    config = read_config(path, f"no model at '{path}'", remedy)
    with folder_errors(path, f"no model at '{path}'", remedy):
        vocab_size, limit = int(config.get_text_config().vocab_size), context_limit(config)
        if limit is not None and limit < 1:
            raise ValueError(f"it holds {limit} tokens")
    resized = f"call model.resize_token_embeddings({len(tokenizer)}) before you save it"
    # Before check_vocabulary: its remedy, a larger table, does not help against other token ids.
    _check_saved_tokenizer(path, tokenizer)
    check_vocabulary(f"model at '{path}'", vocab_size, tokenizer, resized)
    check_context(path, context_length, limit)
    weights = f"no weights at '{path}'"
    model, report = read_weights(AutoModelForCausalLM, path, config, weights, remedy, dtype)
    check_filled(path, report)
    table = model.get_input_embeddings()
    if isinstance(table, nn.Embedding):
        table.padding_idx = None
    return model


def _check_saved_tokenizer(path: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check the tokenizer against the one saved beside the weights, if there is one."""
    if Path(path).is_dir() and not (Path(path) / "tokenizer_config.json").is_file():
        return  # a folder of weights alone
    try:
        saved = load_tokenizer(path=path)
    except DataError:
        if Path(path).is_dir():
            raise
        return  # the hub has no tokenizer of the model
    check_same_tokens(path, saved, tokenizer)
