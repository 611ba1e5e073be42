"""Model families supported by the native forward pass, and their modules."""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from transformers import (
    GPT2LMHeadModel,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
)

from rlcomp.engine.transformer import Block, Layers

# Rotations that depend on a token's position alone, not on the current length of its row.
_ROTATIONS = ("default", "linear", "llama3", "yarn")


def why_unsupported(model: PreTrainedModel) -> str | None:
    """Return why the native forward pass does not support a model; None if it does.

    Args:
        model: a causal model of transformers.
    """
    # Exact types: a subclass may compute something else.
    if type(model) not in (GPT2LMHeadModel, LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM):
        return f"its class is {type(model).__name__}"
    if type(model.get_output_embeddings()) is not nn.Linear:
        return f"its output head is {type(model.get_output_embeddings()).__name__}"
    if getattr(model, "is_loaded_in_4bit", False):
        return "its weights are in four bits"
    return _unusual(model.config)


def _unusual(config: Any) -> str | None:  # noqa: ANN401
    if config.model_type == "gpt2":
        return "it has cross attention" if config.add_cross_attention else None
    if "sliding_attention" in (config.to_dict().get("layer_types") or []):
        return "its attention slides"
    kind = config.rope_parameters["rope_type"]
    return None if kind in _ROTATIONS else f"its rotation is {kind}"


def layers(model: nn.Module) -> Layers:
    """Return the modules of a known model."""
    causal = cast("PreTrainedModel", model)
    return backbone_layers(causal.get_decoder(), cast("nn.Linear", causal.get_output_embeddings()))


def backbone_layers(backbone: nn.Module, head: nn.Linear | None = None) -> Layers:
    """Return the modules of a known model's backbone.

    Args:
        backbone: the result of ``get_decoder``.
        head: the output head; None to do without.
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
