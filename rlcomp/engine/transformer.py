"""Packed forward pass of causal LMs of transformers, without a copy of their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers.activations import SiLUActivation

from rlcomp.engine.autograd import run_checkpointed
from rlcomp.engine.compiling import compiles, compiling
from rlcomp.engine.layer_functions import rotate, silu_gate
from rlcomp.engine.linear import Kernel
from rlcomp.engine.modules import apply_linear, apply_norm, with_parameters
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
        """Compute queries ``[N, heads, D]``, keys and values ``[N, kv_heads, D]``.

        Args:
            x: the residual stream before the layer, shape ``[N, H]``.
            rotation: cosines and sines (:func:`rlcomp.engine.layer_functions.rotate`), or None.
            kernel: kernel of the linear layers.
            compute: dtype of the results; None for the dtype of ``x``.
            native: whether the native library computes. Then queries and keys are not rotated:
                its attention rotates them.
        """
        y = apply_norm(self.norms[0], x, compute, native)
        outputs = [apply_linear(module, y, kernel) for module in self.qkv]
        if len(outputs) == 1:
            outputs = list(outputs[0].chunk(3, -1))
        counts = (self.heads, self.kv_heads, self.kv_heads)
        q, k, v = (output.view(len(x), n, -1) for output, n in zip(outputs, counts, strict=True))
        if self.head_norms is not None:
            q = apply_norm(self.head_norms[0], q, native=native)
            k = apply_norm(self.head_norms[1], k, native=native)
        if rotation is not None and not native:
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
        """Return the residual stream after the layer, ``[N, H]``.

        Args:
            x: the residual stream before the layer, shape ``[N, H]``.
            attention_output: shape ``[N, heads * D]``.
            kernel: kernel of the linear layers.
            compute: dtype between the residual streams; None for the dtype of ``x``.
            native: whether the native library computes norm and gate.
        """
        x = x + apply_linear(self.out, attention_output, kernel)
        y = apply_norm(self.norms[1], x, compute, native)
        # Gate and up projection; without a gate there is one projection.
        gate, *up = (apply_linear(module, y, kernel) for module in self.expand)
        if (native or compiles()) and up and isinstance(self.activation, _SILU):
            inner = (norm_gate.silu_gate if native else silu_gate)(gate, *up)
        else:
            inner = self.activation(gate)
            inner = inner * up[0] if up else inner
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

    Holds no weights of its own: it reads the model's modules, adapters included. So training,
    checkpoints and disabled adapters do not depend on it.

    Args:
        model: a causal model of transformers, or its backbone.
        read: returns the modules of the model, e.g. :func:`rlcomp.engine.architectures.layers`;
            called in every pass, because adapters may have replaced modules.
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
        """Compute the last hidden states of packed tokens; return them and the head.

        Args:
            packed: the ``N`` tokens.
            indices: the tokens whose last states are computed, int64, shape ``[M]``; None for all.

        Returns:
            The states, shape ``[M, H]``; and the output head, None for a backbone.
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
        return run_checkpointed(run_layer, x) if self.checkpointing else run_layer(x)

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
        """Return the residual stream before the layers, ``[N, H]``, and the rotary embeddings.

        The rotary embeddings are cosines and sines, shape ``[2, N, 1, D]``; None without them.
        """
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
