"""Description of a model for the native library, which reads its weights in place."""

from __future__ import annotations

import ctypes
from typing import cast

import torch
from torch import Tensor, nn

from rlcomp.engine.fused import merged_weights
from rlcomp.engine.native.library import LayerStruct, LinearStruct, ModelStruct, NormStruct
from rlcomp.engine.transformer import Block, Transformer

# Number of each activation in src/model.h, by the class name of the module of transformers.
_ACTIVATIONS = {"SiLUActivation": 0, "NewGELUActivation": 1, "GELUTanh": 1}
# Floats of the widest vector: head sizes are padded to a multiple of it.
_LANES = 16


def unsupported_model(transformer: Transformer) -> str | None:
    """Return why the native library cannot read a model; None if it can."""
    layers, head = transformer.layers, transformer.head()
    assert head is not None
    if head.weight.device.type != "cpu":
        return f"the model is on {head.weight.device.type}"
    if head.weight.dtype != torch.float32:
        return f"the weights are {str(head.weight.dtype).removeprefix('torch.')}, not float32"
    if transformer.compute is not None:
        return "engine.compute is bfloat16"
    if transformer.kernel == "bfloat16":
        return "engine.linear is bfloat16"
    if len({block.scale for block in layers.blocks}) > 1:
        return "the scale of its attention differs by layer (scale_attn_by_inverse_layer_idx)"
    names = {type(block.activation).__name__ for block in layers.blocks}
    unknown = names - set(_ACTIVATIONS)
    return f"its activation is {unknown.pop()}" if unknown else None


class NativeModel:
    """Description of a model for the native library.

    Takes no memory for weights, except for merged adapters and for weights that are not contiguous
    by row.

    Args:
        transformer: the model; the library must support it (:func:`unsupported_model`).
        positions: maximum number of tokens of a row.

    Attributes:
        struct: argument of the library.
        vocabulary: width of the logits.
        token_bytes: bytes of the keys and values of a token.
    """

    def __init__(self, transformer: Transformer, positions: int) -> None:
        layers, head = transformer.layers, transformer.head()
        assert head is not None
        self._alive: list[Tensor] = []
        self._transformer, self._positions = transformer, positions
        blocks = [self._layer(block) for block in layers.blocks]
        self._layers = (LayerStruct * len(blocks))(*blocks)
        first, first_struct = layers.blocks[0], blocks[0]
        size = first_struct.v.outputs // first.kv_heads
        cosine, sine = self._rotations(transformer, positions)
        position_embedding = layers.position_embedding
        self.struct = ModelStruct(
            layers=len(blocks),
            hidden=head.weight.shape[1],
            heads=first.heads,
            kv_heads=first.kv_heads,
            head_size=size,
            inner=first_struct.up.outputs,
            activation=_ACTIVATIONS[type(first.activation).__name__],
            scale=first.scale,
            embedding=self._table(layers.embedding),
            position_embedding=(
                None if position_embedding is None else self._table(position_embedding)
            ),
            cosine=cosine,
            sine=sine,
            layer=self._layers,
            norm=self._norm(layers.norm),
            head=self._linear(head.weight, head.bias),
        )
        self.vocabulary = len(head.weight)
        padded = -(-size // _LANES) * _LANES
        self.token_bytes = len(blocks) * first.kv_heads * 2 * padded * 4

    @property
    def pointer(self) -> ctypes._Pointer[ModelStruct]:
        """Return a pointer to the struct."""
        return ctypes.pointer(self.struct)

    def _table(self, embedding: nn.Module) -> int:
        return self._pointer(cast("Tensor", embedding.weight))

    def _layer(self, block: Block) -> LayerStruct:
        q, k, v = self._queries_keys_values(block)
        *gates, up = [self._module(module) for module in block.expand]
        before_attention, before_feed = (self._norm(norm) for norm in block.norms)
        head_norms = [self._norm(norm) for norm in block.head_norms or ()]
        return LayerStruct(
            before_attention=before_attention,
            before_feed=before_feed,
            of_queries=head_norms[0] if head_norms else NormStruct(),
            of_keys=head_norms[1] if head_norms else NormStruct(),
            q=q,
            k=k,
            v=v,
            out=self._module(block.out),
            gate=gates[0] if gates else LinearStruct(),
            up=up,
            down=self._module(block.contract),
        )

    def _queries_keys_values(self, block: Block) -> list[LinearStruct]:
        if len(block.qkv) == 3:
            return [self._module(module) for module in block.qkv]
        weight, bias = merged_weights(block.qkv[0])
        biases = [None] * 3 if bias is None else bias.chunk(3)
        return [self._linear(w, b) for w, b in zip(weight.chunk(3), biases, strict=True)]

    def _module(self, module: nn.Module) -> LinearStruct:
        return self._linear(*merged_weights(module))

    def _linear(self, weight: Tensor, bias: Tensor | None) -> LinearStruct:
        outputs, inputs = weight.shape
        bias_pointer = None if bias is None else self._pointer(bias)
        return LinearStruct(self._pointer(weight), bias_pointer, outputs, inputs)

    def _norm(self, module: nn.Module) -> NormStruct:
        weight = self._pointer(cast("Tensor", module.weight))
        if not isinstance(module, nn.LayerNorm):
            return NormStruct(weight, None, module.variance_epsilon, 0)
        bias = None if module.bias is None else self._pointer(module.bias)
        return NormStruct(weight, bias, module.eps, 1)

    def _rotations(self, transformer: Transformer, positions: int) -> tuple[int | None, int | None]:
        """Return the addresses of cosines and sines ``[positions, D / 2]``, None without them."""
        layers = transformer.layers
        if layers.rotary is None:
            return None, None
        like = layers.embedding.weight[None, :1]  # type: ignore[index]
        cos, sin = layers.rotary(like, torch.arange(positions)[None])
        half = cos.shape[-1] // 2
        return self._pointer(cos[0, :, :half]), self._pointer(sin[0, :, :half])

    def _pointer(self, tensor: Tensor) -> int:
        """Return the address of a tensor's contiguous values, and keep them alive."""
        tensor = tensor.detach().to(torch.float32).contiguous()
        self._alive.append(tensor)
        return tensor.data_ptr()

    def refresh(self) -> None:
        """Update copied weights after the model's weights were changed in place."""
        current = NativeModel(self._transformer, self._positions)
        for own, other in zip(self._alive, current._alive, strict=True):
            if own.data_ptr() != other.data_ptr():
                own.copy_(other)
