"""Packed forward pass of causal LMs of transformers, without a copy of their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers.activations import SiLUActivation
from transformers.pytorch_utils import Conv1D

from rlcomp.engine.autograd import checkpointed
from rlcomp.engine.compiling import compiles, compiling
from rlcomp.engine.layer_functions import fused_rms_norm, rms_norm, rotate, silu_gate
from rlcomp.engine.linear import Kernel, linear
from rlcomp.engine.native import norm_gate
from rlcomp.engine.native.tree_attention import tree_attention
from rlcomp.engine.output_head import Head
from rlcomp.engine.packing import PackedTokens

# transformers has two classes of SiLU.
_SILU = (nn.SiLU, SiLUActivation)


@dataclass(frozen=True)
class Block:
    """One layer: its modules, and the properties that differ between families.

    Attributes:
        module: the layer.
        qkv: modules whose concatenated outputs are queries, keys and values.
        out: output projection of attention.
        expand: input projections of the MLP; the gate comes first if there is one.
        contract: output projection of the MLP.
        norms: norms before attention and before the MLP.
        head_norms: norms of queries and of keys, per head, or None.
        activation: activation function of the MLP.
        heads: number of attention heads.
        kv_heads: number of heads of keys and values.
        scale: factor of the attention logits.
    """

    module: nn.Module
    qkv: tuple[nn.Module, ...]
    out: nn.Module
    expand: tuple[nn.Module, ...]
    contract: nn.Module
    norms: tuple[nn.Module, nn.Module]
    head_norms: tuple[nn.Module, nn.Module] | None
    activation: Callable[[Tensor], Tensor]
    heads: int
    kv_heads: int
    scale: float

    def project(
        self,
        x: Tensor,
        rotation: Tensor | None,
        kernel: Kernel,
        compute: torch.dtype | None = None,
        native: bool = False,
    ) -> list[Tensor]:
        """Compute queries ``[N, heads, D]``, keys and values ``[N, kv_heads, D]`` of ``[N, H]``."""
        y = apply_norm(self.norms[0], x, compute, native)
        outputs = [apply_linear(module, y, kernel) for module in self.qkv]
        if len(outputs) == 1:
            outputs = list(outputs[0].chunk(3, -1))
        counts = (self.heads, self.kv_heads, self.kv_heads)
        q, k, v = (output.view(len(x), n, -1) for output, n in zip(outputs, counts, strict=True))
        if self.head_norms is not None:
            q = apply_norm(self.head_norms[0], q, native=native)
            k = apply_norm(self.head_norms[1], k, native=native)
        if rotation is not None and not native:  # the native library's attention rotates
            q, k = rotate(q, rotation), rotate(k, rotation)
        return [q, k, v]

    def finish(
        self,
        x: Tensor,
        attention_output: Tensor,
        kernel: Kernel,
        compute: torch.dtype | None = None,
        native: bool = False,
    ) -> Tensor:
        """Return the residual stream after the layer, ``[N, H]``; attention gives ``[N, A]``."""
        x = x + apply_linear(self.out, attention_output, kernel)
        y = apply_norm(self.norms[1], x, compute, native)
        first, *rest = (apply_linear(module, y, kernel) for module in self.expand)
        if (native or compiles()) and rest and isinstance(self.activation, _SILU):
            inner = (norm_gate.silu_gate if native else silu_gate)(first, *rest)
        else:
            inner = self.activation(first)
            inner = inner * rest[0] if rest else inner
        return x + apply_linear(self.contract, inner, kernel)


@dataclass(frozen=True)
class Layers:
    """The modules of a model.

    Attributes:
        embedding: token embedding.
        blocks: the layers between embedding and last norm.
        position_embedding: added position embedding; None for rotary positions.
        rotary: module from positions to cosines and sines; None for added positions.
        norm: the last norm.
        head: the output head; None for a backbone.
    """

    embedding: nn.Module
    blocks: list[Block]
    position_embedding: nn.Module | None
    rotary: nn.Module | None
    norm: nn.Module
    head: nn.Linear | None


class Transformer(nn.Module):
    """Packed forward pass of a causal LM.

    Holds no weights: it reads the model's modules, adapters included. So training, checkpoints and
    disabled adapters do not depend on it.

    Args:
        model: a causal model of transformers, or its backbone.
        read: returns its modules, e.g. :func:`rlcomp.engine.architectures.layers`; called in every
            pass, because adapters may have replaced some.
        kernel: implementation of the linear layers.
        checkpointing: compute layers again in the backward pass, instead of storing their results.
        compute: dtype of attention, of the operands of linear layers and of the last states. The
            residual stream and its gradients have the dtype of the weights. None for the dtype of
            the weights everywhere.
        native: whether the native library computes attention, RMSNorm, rotary embedding and SiLU
            gate, for float32 on a CPU.
        compiles: whether operations between matrix products are compiled, if not ``native``.
    """

    def __init__(
        self,
        model: nn.Module,
        read: Callable[[nn.Module], Layers],
        kernel: Kernel,
        checkpointing: bool = False,
        compute: torch.dtype | None = None,
        native: bool = False,
        compiles: bool = False,
    ) -> None:
        super().__init__()
        self.native, self.compiles = native, compiles
        self.checkpointing = checkpointing
        self.compute = compute
        self.model = model
        self.read = read
        self.kernel: Kernel = kernel

    @property
    def layers(self) -> Layers:
        """Return the model's current modules."""
        return self.read(self.model)

    def forward(self, packed: PackedTokens, indices: Tensor | None) -> tuple[Tensor, Head | None]:
        """Compute the last hidden states of packed tokens, ``[N, H]``; return them and the head.

        Args:
            packed: the tokens.
            indices: tokens whose last states are computed, int64; None for all.
        """
        return with_parameters(self.model, self._run, packed, indices)

    def _run(self, packed: PackedTokens, indices: Tensor | None) -> tuple[Tensor, Head | None]:
        x, rotation = self.embed(packed.ids, packed.positions)
        *blocks, last = self.layers.blocks
        for block in blocks:
            x = self._layer(block, x, rotation, packed, None)
        x = self._layer(last, x, rotation, packed, indices)
        return apply_norm(self.layers.norm, x, self.compute, self._is_native(x)), self.head()

    def _layer(
        self,
        block: Block,
        x: Tensor,
        rotation: Tensor | None,
        packed: PackedTokens,
        indices: Tensor | None,
    ) -> Tensor:
        """Return the residual stream of some tokens after a layer."""

        def layer(x: Tensor) -> Tensor:
            q, k, v = block.project(x, rotation, self.kernel, self.compute, native)
            if native:
                attention_output = tree_attention(q, k, v, packed.nodes, block.scale, rotation)
            else:
                attention_output = packed.attend(q, k, v, block.scale)
            if indices is not None:
                x, attention_output = (
                    x.index_select(0, indices),
                    attention_output.index_select(0, indices),
                )
            return block.finish(x, attention_output, self.kernel, self.compute, native)

        def run_layer(x: Tensor) -> Tensor:
            # Set here, because a checkpointed layer runs again in another thread.
            with compiling(self.compiles and not native):
                return with_parameters(block.module, layer, x)

        native = self._is_native(x)
        return checkpointed(run_layer, x) if self.checkpointing else run_layer(x)

    def _is_native(self, x: Tensor) -> bool:
        """Return whether the native library computes on this residual stream."""
        is_float32 = self.compute is None and x.dtype == torch.float32
        return self.native and is_float32 and x.device.type == "cpu"

    def with_weights(
        self, packed: PackedTokens, indices: Tensor | None, weights: Mapping[str, Tensor] | None
    ) -> tuple[Tensor, Head | None]:
        """Run :meth:`forward` with other weights, by the names of the model's parameters."""
        if weights is None:
            return self(packed, indices)  # type: ignore[no-any-return]
        parameters = {f"model.{name}": value for name, value in weights.items()}
        return functional_call(self, parameters, (packed, indices))  # type: ignore[no-any-return]

    def embed(self, ids: Tensor, positions: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the residual stream before the layers, ``[N, H]``, and the rotary embeddings."""
        layers = self.layers
        x: Tensor = layers.embedding(ids)
        if layers.position_embedding is not None:
            x = x + layers.position_embedding(positions)
        if layers.rotary is None:
            return x, None
        cos, sin = layers.rotary(x[None], positions[None])
        rotation = torch.stack([cos[0], sin[0]])[:, :, None]
        return x, rotation if self.compute is None else rotation.to(self.compute)

    def head(self) -> Head | None:
        """Return the output head with its current weights."""
        module = self.layers.head
        if module is None:
            return None
        native = self._is_native(module.weight)
        return Head(module.weight, module.bias, self.kernel, self.compiles, native)


# Name of a sharded module's method that calls a function with gathered parameters.
GATHERED_CALL = "packed_pass"
T = TypeVar("T")


def with_parameters(module: nn.Module, function: Callable[..., T], *args: object) -> T:
    """Call a function that reads a module's parameters; return its result.

    A sharded module (:mod:`rlcomp.parallel.sharded`) gathers its parameters for the call.
    """
    run = vars(module).get(GATHERED_CALL)
    result: T = function(*args) if run is None else run(function, *args)
    return result


def apply_linear(module: nn.Module, x: Tensor, kernel: Kernel) -> Tensor:
    """Apply a linear layer by a kernel, or by its own forward if it has adapters or hooks."""
    if not has_hooks(module):
        if type(module) is nn.Linear:
            bias = None if module.bias is None else module.bias.to(x.dtype)
            return linear(x, module.weight.to(x.dtype), bias, kernel)
        if isinstance(module, Conv1D):
            weight, bias = cast("Tensor", module.weight), cast("Tensor", module.bias)
            return linear(x, weight.to(x.dtype).t(), bias.to(x.dtype), kernel)
    return _call(module, x)


def _call(module: nn.Module, x: Tensor) -> Tensor:
    """Call a module in the dtype of its weights; return the result in the dtype of the input."""
    own = next((p.dtype for p in module.parameters() if p.is_floating_point()), x.dtype)
    result: Tensor = module(x.to(own))
    return result.to(x.dtype)


def apply_norm(
    module: nn.Module, x: Tensor, compute: torch.dtype | None = None, native: bool = False
) -> Tensor:
    """Apply a normalisation layer, RMSNorm by our kernels; return the result in ``compute``."""
    if isinstance(module, nn.LayerNorm) or has_hooks(module):
        y = _call(module, x)
    elif compiles():
        return fused_rms_norm(x, module.weight, module.variance_epsilon, compute or x.dtype)  # type: ignore[arg-type]
    else:
        norm = norm_gate.rms_norm if native and module.weight.dtype == x.dtype else rms_norm
        y = norm(x, module.weight, module.variance_epsilon)  # type: ignore[arg-type]
    return y if compute is None else y.to(compute)


def has_hooks(module: nn.Module) -> bool:
    """Return whether a module has forward hooks."""
    return bool(module._forward_hooks or module._forward_pre_hooks)
