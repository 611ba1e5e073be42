"""Current weights of a model as the native library reads them: in place, not copied."""

from __future__ import annotations

import ctypes
from typing import cast

import torch
from torch import Tensor, nn

from rlcomp.engine.fused import merged_weights
from rlcomp.engine.native import abi
from rlcomp.engine.transformer import Block, Transformer

# By the class name of transformers' module; src/model.h has the same numbers.
_ACTIVATIONS = {"SiLUActivation": 0, "NewGELUActivation": 1, "GELUTanh": 1}
# Floats of the widest vector: head sizes are padded to a multiple of it.
_LANES = 16


def unsupported_model(transformer: Transformer) -> str | None:
    """Return why the native library cannot read a model; None if it can.

    Args:
        transformer: the model.
    """
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
    # The option scale_attn_by_inverse_layer_idx of GPT-2.
    if len({block.scale for block in layers.blocks}) > 1:
        return "its attention is scaled otherwise in every layer"
    names = {type(block.activation).__name__ for block in layers.blocks}
    unknown = names - set(_ACTIVATIONS)
    return f"its activation is {unknown.pop()}" if unknown else None


class NativeModel:
    """Description of a model for the native library.

    Takes no memory for weights, except for merged adapters and for weights that are not contiguous
    by row. Changes of weights in place change the samples.

    Args:
        transformer: the model; :func:`unsupported_model` is None.
        positions: the most tokens of a row.

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
        self._layers = (abi.LayerStruct * len(blocks))(*blocks)
        first, each = layers.blocks[0], blocks[0]
        size = each.v.outputs // first.kv_heads
        cosine, sine = self._rotations(transformer, positions)
        learnt = layers.position_embedding
        self.struct = abi.ModelStruct(
            layers=len(blocks),
            hidden=head.weight.shape[1],
            heads=first.heads,
            kv_heads=first.kv_heads,
            head_size=size,
            inner=each.up.outputs,
            activation=_ACTIVATIONS[type(first.activation).__name__],
            scale=first.scale,
            embedding=self._table(layers.embedding),
            position_embedding=None if learnt is None else self._table(learnt),
            cosine=cosine,
            sine=sine,
            layer=self._layers,
            norm=self._norm(layers.norm),
            head=self._linear(head.weight, head.bias),
        )
        self.vocabulary = len(head.weight)
        filled = -(-size // _LANES) * _LANES
        self.token_bytes = len(blocks) * first.kv_heads * 2 * filled * 4

    @property
    def pointer(self) -> ctypes._Pointer[abi.ModelStruct]:
        """Return a pointer to the struct."""
        return ctypes.pointer(self.struct)

    def _table(self, embedding: nn.Module) -> int:
        return self._pointer(cast("Tensor", embedding.weight))

    def _layer(self, block: Block) -> abi.LayerStruct:
        q, k, v = self._queries_keys_values(block)
        *gates, up = [self._module(module) for module in block.expand]
        before_attention, before_feed = (self._norm(norm) for norm in block.norms)
        of_heads = [self._norm(norm) for norm in block.head_norms or ()]
        return abi.LayerStruct(
            before_attention=before_attention,
            before_feed=before_feed,
            of_queries=of_heads[0] if of_heads else abi.NormStruct(),
            of_keys=of_heads[1] if of_heads else abi.NormStruct(),
            q=q,
            k=k,
            v=v,
            out=self._module(block.out),
            gate=gates[0] if gates else abi.LinearStruct(),
            up=up,
            down=self._module(block.contract),
        )

    def _queries_keys_values(self, block: Block) -> list[abi.LinearStruct]:
        if len(block.qkv) == 3:
            return [self._module(module) for module in block.qkv]
        weight, bias = merged_weights(block.qkv[0])
        biases = [None] * 3 if bias is None else bias.chunk(3)
        return [self._linear(w, b) for w, b in zip(weight.chunk(3), biases, strict=True)]

    def _module(self, module: nn.Module) -> abi.LinearStruct:
        return self._linear(*merged_weights(module))

    def _linear(self, weight: Tensor, bias: Tensor | None) -> abi.LinearStruct:
        outputs, inputs = weight.shape
        known = None if bias is None else self._pointer(bias)
        return abi.LinearStruct(self._pointer(weight), known, outputs, inputs)

    def _norm(self, module: nn.Module) -> abi.NormStruct:
        weight = self._pointer(cast("Tensor", module.weight))
        if not isinstance(module, nn.LayerNorm):
            return abi.NormStruct(weight, None, module.variance_epsilon, 0)
        bias = None if module.bias is None else self._pointer(module.bias)
        return abi.NormStruct(weight, bias, module.eps, 1)

    def _rotations(self, transformer: Transformer, positions: int) -> tuple[int | None, int | None]:
        """Return cosines and sines, ``[positions, D / 2]`` each."""
        layers = transformer.layers
        if layers.rotary is None:
            return None, None
        like = layers.embedding.weight[None, :1]  # type: ignore[index]
        cos, sin = layers.rotary(like, torch.arange(positions)[None])
        half = cos.shape[-1] // 2
        return self._pointer(cos[0, :, :half]), self._pointer(sin[0, :, :half])

    def _pointer(self, tensor: Tensor) -> int:
        """Return the address of a tensor's contiguous numbers, and keep them alive."""
        tensor = tensor.detach().to(torch.float32).contiguous()
        self._alive.append(tensor)
        return tensor.data_ptr()

    def refresh(self) -> None:
        """Write copied weights again, after the model's weights were changed in place."""
        now = NativeModel(self._transformer, self._positions)
        for mine, fresh in zip(self._alive, now._alive, strict=True):
            if mine.data_ptr() != fresh.data_ptr():
                mine.copy_(fresh)
