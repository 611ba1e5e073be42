"""Architectures: families that the packed forward pass supports, and a probe of any causal LM."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from transformers import (
    Cache,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
)
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from rlcomp.engine.transformer import Block, Layers
from rlcomp.errors import ConfigError, add_note

# Rotary embeddings that depend on the position alone, not on the length of the row.
_ROTATIONS = ("default", "linear", "llama3", "yarn")
# Names of the cache in a model's output and arguments.
_CACHES = ("past_key_values", "cache_params")


def why_unsupported(model: PreTrainedModel) -> str | None:
    """Return why the packed forward pass does not support a model; None if it does."""
    # Exact types: a subclass may compute something else.
    if type(model) not in (GPT2LMHeadModel, LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM):
        return f"its class is {type(model).__name__}"
    if type(model.get_output_embeddings()) is not nn.Linear:
        return f"its output head is {type(model.get_output_embeddings()).__name__}"
    if getattr(model, "is_loaded_in_4bit", False):
        return "its weights are in four bits"
    return _unsupported_config(model.config)


def _unsupported_config(config: Any) -> str | None:  # noqa: ANN401
    if config.model_type == "gpt2":
        return "it has cross attention" if config.add_cross_attention else None
    if "sliding_attention" in (config.to_dict().get("layer_types") or []):
        return "it has sliding-window attention"
    kind = config.rope_parameters["rope_type"]
    return None if kind in _ROTATIONS else f"its rotary embedding is of type {kind}"


def layers(model: nn.Module) -> Layers:
    """Return the modules of a supported causal model."""
    causal = cast("PreTrainedModel", model)
    return backbone_layers(causal.get_decoder(), cast("nn.Linear", causal.get_output_embeddings()))


def backbone_layers(backbone: nn.Module, head: nn.Linear | None = None) -> Layers:
    """Return the modules of a supported model's backbone.

    Args:
        backbone: the result of ``get_decoder``.
        head: the output head, or None.
    """
    decoder: Any = backbone
    if decoder.config.model_type == "gpt2":
        blocks = [_gpt2(layer) for layer in decoder.h]
        return Layers(decoder.wte, blocks, decoder.wpe, None, decoder.ln_f, head)
    blocks = [_llama(layer, decoder.config) for layer in decoder.layers]
    return Layers(decoder.embed_tokens, blocks, None, decoder.rotary_emb, decoder.norm, head)


def _gpt2(layer: Any) -> Block:  # noqa: ANN401
    attention = layer.attn
    return Block(
        module=layer,
        qkv=(attention.c_attn,),
        out=attention.c_proj,
        expand=(layer.mlp.c_fc,),
        contract=layer.mlp.c_proj,
        norms=(layer.ln_1, layer.ln_2),
        head_norms=None,
        activation=layer.mlp.act,
        heads=attention.num_heads,
        kv_heads=attention.num_heads,
        scale=attention.scaling,
    )


def _llama(layer: Any, config: Any) -> Block:  # noqa: ANN401
    attention = layer.self_attn
    # Only Qwen3 normalises its queries and keys.
    norms = (attention.q_norm, attention.k_norm) if config.model_type == "qwen3" else None
    return Block(
        module=layer,
        qkv=(attention.q_proj, attention.k_proj, attention.v_proj),
        out=attention.o_proj,
        expand=(layer.mlp.gate_proj, layer.mlp.up_proj),
        contract=layer.mlp.down_proj,
        norms=(layer.input_layernorm, layer.post_attention_layernorm),
        head_norms=norms,
        activation=layer.mlp.act_fn,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        scale=attention.scaling,
    )


@dataclass(frozen=True)
class ModelSignature:
    """Call signature and cache type of a causal LM.

    Attributes:
        vocabulary: width of the logits; may exceed the number of tokens of the tokenizer.
        keeps_columns: whether it has the argument ``logits_to_keep``.
        takes_positions: whether it has the argument ``position_ids``.
        cache: name of the cache in output and arguments.
        repeats_cache: whether the cache can be repeated for the answers of a group. With recurrent
            layers it cannot: a prompt is then computed once per answer.
    """

    vocabulary: int
    keeps_columns: bool
    takes_positions: bool
    cache: str
    repeats_cache: bool

    @property
    def recurrent(self) -> bool:
        """Return whether the cache is purely recurrent (state-space models)."""
        return self.cache == "cache_params"


@torch.no_grad()
def probe(model: PreTrainedModel) -> ModelSignature:
    """Return the signature of a model in eval mode, from a forward pass over a few tokens.

    Raises:
        ConfigError: the model is not causal, or it returns no cache.
    """
    # The rows differ in the last token only: in a causal model, only the last logits may differ.
    rows = torch.tensor([[0, 1, 0, 1], [0, 1, 0, 0]], device=model.device)
    name = model.config.model_type
    try:
        with torch.random.fork_rng(devices=[]):
            output = model(input_ids=rows, use_cache=True)
    except Exception as error:
        add_note(error, f"policy: the model ({name}) failed to read four tokens; check its config")
        raise
    logits = output.logits
    _check_causal(logits, name)
    caches = [key for key in _CACHES if isinstance(output.get(key), Cache)]
    if not caches:
        raise ConfigError(
            f"policy: the model ({name}) returns no KV cache, so it cannot be sampled: choose "
            "another architecture"
        )
    parameters = inspect.signature(model.forward).parameters
    plain = (DynamicLayer, DynamicSlidingWindowLayer)
    return ModelSignature(
        vocabulary=logits.shape[-1],
        keeps_columns="logits_to_keep" in parameters,
        takes_positions="position_ids" in parameters,
        cache=caches[0],
        # Exact types: the method that a hybrid layer inherits does not repeat its recurrent state.
        repeats_cache=all(type(layer) in plain for layer in output[caches[0]].layers),
    )


def _check_causal(logits: torch.Tensor, name: str) -> None:
    """Check that the logits of the first three columns agree, up to rounding."""
    earlier = logits[:, :3].double()
    rounding = torch.finfo(logits.dtype).eps ** 0.75 * earlier.abs().max()
    if (earlier[0] - earlier[1]).abs().max() > rounding:
        raise ConfigError(
            f"policy: the model ({name}) is not causal: a token changes the logits of earlier "
            "tokens. Choose an architecture that generates from left to right (for BERT, a config "
            "with is_decoder: true)"
        )
