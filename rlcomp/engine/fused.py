"""Fused weights for decoding: joint QKV and MLP matrices, merged adapters."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from rlcomp.engine.cache import Memory
from rlcomp.engine.layer_functions import rms_norm
from rlcomp.engine.linear import Kernel, has_onednn, linear, wide_product
from rlcomp.engine.transformer import Block, Transformer

# Minimum entries of a matrix in oneDNN's layout, in which products with few rows are faster.
_LARGE = 2**18
_HALF = frozenset((torch.bfloat16, torch.float16))
# Maximum number of rows for the product without the overhead of F.linear.
_FEW = 128


class Matrix:
    """A linear layer for many products with few rows (decoding).

    With any kernel, a large matrix on a CPU is copied once into oneDNN's layout. Otherwise every
    product would copy it, which takes most of the time if there are few rows.

    Args:
        weight: shape ``[out, in]``.
        bias: shape ``[out]``, or None.
        kernel: ``bfloat16`` rounds the factors.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, kernel: Kernel) -> None:
        self.weight = weight.bfloat16() if kernel == "bfloat16" else weight
        self.dtype = self.weight.dtype
        self.bias = bias
        self.kernel: Kernel = kernel
        # Whether the weight is in oneDNN's layout.
        self.packed = weight.numel() >= _LARGE and _can_pack(self.weight)
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous())
        else:
            self.transposed = self.weight.t()

    def __call__(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight.T + bias`` for ``x`` of shape ``[N, in]``, in its dtype."""
        if self.kernel == "bfloat16":
            y = self._product(x.to(self.dtype), None).to(x.dtype)
            return y if self.bias is None else y.add_(self.bias)
        return self._product(x, self.bias)

    def _product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        if self.packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, bias, "none", [], "")
            return y
        if len(x) <= _FEW and self.kernel != "tf32":
            # The operations of F.linear, without its overhead.
            weight = self.transposed
            return torch.mm(x, weight) if bias is None else torch.addmm(bias, x, weight)
        return linear(x, self.weight, bias, "torch" if self.kernel == "bfloat16" else self.kernel)

    def wide(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight.T + bias``; the result is float32 at least.

        A CPU rounds sums of half precision to half precision first.
        """
        if x.dtype in _HALF and x.dtype == self.weight.dtype and not self.packed:
            return wide_product(x, self.weight, self.bias)
        y = self(x)
        return y.float() if y.dtype in _HALF else y


def _can_pack(weight: Tensor) -> bool:
    """Return whether oneDNN supports the device and dtype of a weight."""
    if weight.device.type != "cpu" or not has_onednn():
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32


class FusedNorm:
    """A normalisation layer, in few kernel calls.

    Args:
        module: a LayerNorm or a root-mean-square norm.
        order: permutation of the weight of a root-mean-square norm.
        dtype: dtype of the result; None for the input's.
    """

    def __init__(
        self,
        module: Any,  # noqa: ANN401
        order: Tensor | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.module = module
        self.dtype = dtype
        self.is_layer_norm = isinstance(module, nn.LayerNorm)
        if not self.is_layer_norm:
            self.weight = module.weight if order is None else module.weight[order]
            self.eps = self.weight.new_full((1,), module.variance_epsilon)

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise ``x`` over its last dimension."""
        if self.is_layer_norm:
            y: Tensor = self.module(x.to(self.module.weight.dtype))
            return y.to(self.dtype or x.dtype)
        if x.is_cuda or _HALF.intersection((x.dtype, self.dtype)):
            y = rms_norm(x, self.weight, self.module.variance_epsilon)
            return y.to(self.dtype or x.dtype)
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = torch.addcmul(self.eps, length, length, value=1 / x.shape[-1]).rsqrt_()
        return (x * scale).mul_(self.weight)


class FusedBlock:
    """A transformer layer with fused QKV and MLP matrices and merged adapters.

    Features of queries and keys are reordered: rotated pairs are adjacent, so that a rotation is a
    product of complex numbers. Dot products stay the same.

    Args:
        block: the layer.
        rotates: whether positions are rotary.
        kernel: kernel of the linear layers.
        dtype: dtype of their factors; the residual stream may be wider.
    """

    def __init__(self, block: Block, rotates: bool, kernel: Kernel, dtype: torch.dtype) -> None:
        weight, bias = _stack(block.qkv, dtype)
        self.block = block
        self.heads, self.kv_heads = block.heads, block.kv_heads
        self.size = weight.shape[0] // (block.heads + 2 * block.kv_heads)  # D
        # Number of features of queries and keys, which come first in the output.
        self.num_rotated = (block.heads + block.kv_heads) * self.size
        order = torch.arange(self.size, device=weight.device)
        if rotates:
            order = order.view(2, -1).t().flatten()
            weight = self._reorder(weight, order)
            bias = None if bias is None else self._reorder(bias, order)
        self.qkv = Matrix(weight, bias, kernel)
        self.out = Matrix(*_stack([block.out], dtype), kernel)
        self.expand = Matrix(*_stack(block.expand, dtype), kernel)
        self.contract = Matrix(*_stack([block.contract], dtype), kernel)
        self.norms = [FusedNorm(norm, dtype=dtype) for norm in block.norms]
        self.head_norms = [FusedNorm(norm, order, dtype) for norm in block.head_norms or ()]

    def project(self, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Compute queries ``[N, heads, D]``, keys and values ``[N, kv_heads, D]`` of ``[N, H]``.

        Args:
            x: the residual stream.
            rotation: complex, shape ``[N, 1, D / 2]``, or None.
        """
        qkv = self.qkv(self.norms[0](x)).view(len(x), -1, self.size)
        qk, v = qkv[:, : -self.kv_heads], qkv[:, -self.kv_heads :]
        if self.head_norms:
            heads = (qk[:, : self.heads], qk[:, self.heads :])
            parts = zip(self.head_norms, heads, strict=True)
            qk = torch.cat([norm(part) for norm, part in parts], 1)
        if rotation is not None:
            qk = _rotate(qk, rotation)
        return qk[:, : self.heads], qk[:, self.heads :], v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the residual stream after the layer, ``[N, H]``.

        ``attended`` is the output of attention, ``[N, heads * D]``.
        """
        x = x + self.out(attended)
        inner = self.expand(self.norms[1](x))
        if len(self.block.expand) == 2:
            gate, up = inner.chunk(2, 1)
            inner = self.block.activation(gate).mul_(up)
        else:
            inner = self.block.activation(inner)
        new = self.contract(inner)
        return new.add_(x) if new.dtype == x.dtype else new + x

    def _reorder(self, qkv: Tensor, order: Tensor) -> Tensor:
        """Reorder the rows of queries and keys, head by head."""
        heads = qkv[: self.num_rotated].view(-1, self.size, *qkv.shape[1:])[:, order]
        return torch.cat([heads.flatten(0, 1), qkv[self.num_rotated :]])


class Fused:
    """Fused copy of a model's current weights.

    Args:
        transformer: the model.
        positions: maximum number of tokens of a row.
    """

    def __init__(self, transformer: Transformer, positions: int) -> None:
        layers, kernel = transformer.layers, transformer.kernel
        self.layers = layers
        head = transformer.head()
        assert head is not None
        dtype = transformer.compute or head.weight.dtype
        rotates = layers.rotary is not None
        self.blocks = [FusedBlock(block, rotates, kernel, dtype) for block in layers.blocks]
        self.norm = FusedNorm(layers.norm, dtype=dtype)
        bias = None if head.bias is None else head.bias.to(dtype)
        self.head = Matrix(head.weight.to(dtype), bias, kernel)
        # A column of the head's weight: gives the dtype and device of the cache and the size of the
        # vocabulary. The matrix itself may have another layout.
        self.like = head.weight[:, :1].to(dtype)
        self.device = self.like.device
        self.rotations: Tensor | None = None  # complex, shape [positions, 1, D / 2]
        if layers.rotary is not None:
            indices = torch.arange(positions, device=self.device)
            cos, sin = layers.rotary(self.like[None, :1], indices[None])
            half = cos.shape[-1] // 2
            wide = torch.promote_types(cos.dtype, torch.float32)
            parts = (each[0, :, None, :half].to(wide) for each in (cos, sin))
            self.rotations = torch.complex(*parts)

    def embed(self, ids: Tensor, positions: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the residual stream before the layers, ``[N, H]``, and the rotary embeddings.

        The rotary embeddings are complex, shape ``[N, 1, D / 2]``; None without them.
        """
        layers = self.layers
        x: Tensor = layers.embedding(ids)
        if layers.position_embedding is not None:
            x = x + layers.position_embedding(positions)
        return x, None if self.rotations is None else self.rotations[positions]

    def memory(self, prompts: int, longest: int) -> list[Memory]:
        """Allocate the keys and values of prompts by layer, ``[prompts, kv_heads, longest, D]``."""
        new = self.like.new_zeros
        sizes = [(prompts, block.kv_heads, longest, block.size) for block in self.blocks]
        return [(new(*size), new(*size)) for size in sizes]

    @property
    def token_bytes(self) -> int:
        """Return the bytes of the keys and values of a token."""
        return sum(keys.nbytes + values.nbytes for keys, values in self.memory(1, 1))

    def logits(self, x: Tensor) -> Tensor:
        """Compute next-token logits, ``[N, V]``, from the residual stream after the last layer."""
        return self.head.wide(self.norm(x))


def _rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Multiply adjacent pairs of ``x`` ``[N, heads, D]``, as complex numbers, by the rotation."""
    pairs = x.to(rotation.real.dtype).view(*x.shape[:-1], -1, 2)
    rotated = torch.view_as_real(torch.view_as_complex(pairs) * rotation)
    return rotated.view(x.shape).to(x.dtype)


def _stack(modules: Sequence[nn.Module], dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Stack linear layers of the same input: weight ``[out, in]`` and bias."""
    merged = [merged_weights(module) for module in modules]
    parts = [(w.to(dtype), None if b is None else b.to(dtype)) for w, b in merged]
    if len(parts) == 1:
        return parts[0]
    weights = torch.cat([weight for weight, _ in parts])
    biases = [bias for _, bias in parts if bias is not None]
    return weights, torch.cat(biases) if biases else None


def merged_weights(module: Any) -> tuple[Tensor, Tensor | None]:  # noqa: ANN401
    """Return weight ``[out, in]`` and bias of a linear layer, with its active adapters merged."""
    if type(module) is nn.Linear:
        return module.weight, module.bias
    if type(module) is Conv1D:
        return module.weight.t().contiguous(), module.bias
    if module.disable_adapters:
        return merged_weights(module.get_base_layer())
    layer = copy.deepcopy(module)
    layer.merge()
    return merged_weights(layer.get_base_layer())
