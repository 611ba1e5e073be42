"""Native forward pass of transformers' causal LMs, over their own weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from transformers.activations import SiLUActivation
from transformers.pytorch_utils import Conv1D

from rlcomp.engine.attention import attend_packed
from rlcomp.engine.checkpointing import checkpointed
from rlcomp.engine.compiling import compiled, compiles, compiling
from rlcomp.engine.linear import Kernel, linear
from rlcomp.engine.native import norm_gate
from rlcomp.engine.native.tree_attention import tree_attention
from rlcomp.engine.norm import rms_norm, rms_norm_to
from rlcomp.engine.output_head import Head
from rlcomp.engine.packing import PackedTokens
from rlcomp.engine.rotary import rotate

# Both are silu: transformers has two names for it.
_SILU = (nn.SiLU, SiLUActivation)


@dataclass(frozen=True)
class Block:
    """One layer: its modules, and the properties that differ between families.

    Attributes:
        module: the layer that they belong to.
        qkv: modules whose concatenated outputs are queries, keys and values.
        out: from the attention output back to the stream.
        expand: input modules of the feed-forward layer; the gate comes first if there is one.
        contract: output module of the feed-forward layer.
        norms: before attention, and before the feed-forward layer.
        head_norms: of queries and of keys, head by head; None for none.
        activation: between ``expand`` and ``contract``.
        heads: attention heads.
        kv_heads: heads of keys and values.
        scale: of the attention logits.
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
        """Compute queries ``[N, heads, D]``, keys and values ``[N, kv_heads, D]`` of ``[N, H]``.

        Queries and keys are rotated, except for the native library: its attention rotates them.
        """
        y = normed(self.norms[0], x, compute, native)
        joined = [apply(module, y, kernel) for module in self.qkv]
        if len(joined) == 1:
            joined = list(joined[0].chunk(3, -1))
        counts = (self.heads, self.kv_heads, self.kv_heads)
        q, k, v = (each.view(len(x), n, -1) for each, n in zip(joined, counts, strict=True))
        if self.head_norms is not None:
            q = normed(self.head_norms[0], q, native=native)
            k = normed(self.head_norms[1], k, native=native)
        if rotation is not None and not native:  # the library's attention rotates
            q, k = rotate(q, rotation), rotate(k, rotation)
        return [q, k, v]

    def finish(
        self,
        x: Tensor,
        attended: Tensor,
        kernel: Kernel,
        compute: torch.dtype | None = None,
        native: bool = False,
    ) -> Tensor:
        """Return the residual stream after the layer, ``[N, H]``; ``attended`` is ``[N, A]``."""
        x = x + apply(self.out, attended, kernel)
        y = normed(self.norms[1], x, compute, native)
        first, *rest = (apply(module, y, kernel) for module in self.expand)
        if (native or compiles()) and rest and isinstance(self.activation, _SILU):
            inner = norm_gate.gated(first, *rest) if native else gated(first, *rest)
        else:
            inner = self.activation(first)
            inner = inner * rest[0] if rest else inner
        return x + apply(self.contract, inner, kernel)


@dataclass(frozen=True)
class Layers:
    """The modules of a model, in the order of execution.

    Attributes:
        embedding: of the tokens.
        blocks: the layers between the embedding and the last norm.
        position_embedding: added to the embedding of the tokens; None for rotary positions.
        rotary: from positions to cosines and sines; None for added positions.
        norm: the last one.
        head: from the last states to logits; None for a backbone.
    """

    embedding: nn.Module
    blocks: list[Block]
    position_embedding: nn.Module | None
    rotary: nn.Module | None
    norm: nn.Module
    head: nn.Linear | None


class Transformer(nn.Module):
    """Native forward pass of a causal LM over packed tokens.

    Holds no weight of its own and is not part of its model: it reads the model's modules, adapters
    included. So training, checkpoints and switched-off adapters need not know of it.

    Args:
        model: a causal model of transformers, or its backbone.
        read: finds its modules, e.g. :func:`rlcomp.engine.families.layers`. They are looked up in
            every pass: adapters may have replaced some.
        kernel: of the linear layers.
        checkpointing: compute layers again in the backward pass, instead of storing their results.
        compute: dtype of attention, of the factors of linear layers and of the last states. The
            residual stream and its gradients have the dtype of the weights. None for the dtype of
            the weights everywhere.
        native: whether the native library computes attention, RMSNorm, rotary embedding and SiLU
            gate, for float32 on a CPU.
        compiles: whether operations between products are compiled, where the library is not used.
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
        """Return the model's modules as they are now."""
        return self.read(self.model)

    def forward(self, packed: PackedTokens, wanted: Tensor | None) -> tuple[Tensor, Head | None]:
        """Compute the last hidden states of packed tokens, ``[N, H]``; return them and the head.

        Args:
            packed: the tokens.
            wanted: tokens whose last states are read, shape ``[N]``, int64; None for all.
        """
        return within(self.model, self._run, packed, wanted)

    def _run(self, packed: PackedTokens, wanted: Tensor | None) -> tuple[Tensor, Head | None]:
        x, rotation = self.embed(packed.ids, packed.positions)
        *blocks, last = self.layers.blocks
        for block in blocks:
            x = self._through(block, x, rotation, packed, None)
        # The last layer computes only the wanted tokens.
        return self.final(self._through(last, x, rotation, packed, wanted)), self.head()

    def _through(
        self,
        block: Block,
        x: Tensor,
        rotation: Tensor | None,
        packed: PackedTokens,
        wanted: Tensor | None,
    ) -> Tensor:
        """Return the residual stream of the wanted tokens after a layer."""

        def layer(x: Tensor) -> Tensor:
            q, k, v = block.project(x, rotation, self.kernel, self.compute, native)
            if native:
                attended = tree_attention(q, k, v, packed.nodes, block.scale, rotation)
            else:
                attended = attend_packed(q, k, v, packed, block.scale)
            if wanted is not None:
                x, attended = x.index_select(0, wanted), attended.index_select(0, wanted)
            return block.finish(x, attended, self.kernel, self.compute, native)

        def whole(x: Tensor) -> Tensor:
            # Set here, because a checkpointed layer is called once more in another thread.
            with compiling(self.compiles and not native):
                return within(block.module, layer, x)

        native = self._takes(x)
        return checkpointed(whole, x) if self.checkpointing else whole(x)

    def _takes(self, x: Tensor) -> bool:
        """Return whether the native library can compute on this residual stream."""
        wide = self.compute is None and x.dtype == torch.float32
        return self.native and wide and x.device.type == "cpu"

    def with_weights(
        self, packed: PackedTokens, wanted: Tensor | None, weights: Mapping[str, Tensor] | None
    ) -> tuple[Tensor, Head | None]:
        """Run :meth:`forward` with other weights under the names of the model's parameters."""
        if weights is None:
            return self(packed, wanted)  # type: ignore[no-any-return]
        named = {f"model.{name}": value for name, value in weights.items()}
        return functional_call(self, named, (packed, wanted))  # type: ignore[no-any-return]

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

    def final(self, x: Tensor) -> Tensor:
        """Normalise the residual stream after the last layer."""
        native = self._takes(x)
        return normed(self.layers.norm, x, self.compute, native)

    def head(self) -> Head | None:
        """Return the output head with its current weights."""
        module = self.layers.head
        if module is None:
            return None
        native = self._takes(module.weight)
        return Head(module.weight, module.bias, self.kernel, self.compiles, native)


# Method of a sharded module that runs a function while its parameters are whole.
WITHIN = "packed_pass"
T = TypeVar("T")


def within(module: nn.Module, function: Callable[..., T], *args: object) -> T:
    """Call a function that reads a module's parameters outside its ``forward``; return its result.

    A sharded module (:mod:`rlcomp.parallel.sharded`) gathers its parameters for the call.
    """
    run = vars(module).get(WITHIN)
    result: T = function(*args) if run is None else run(function, *args)
    return result


def apply(module: nn.Module, x: Tensor, kernel: Kernel) -> Tensor:
    """Apply a linear layer by our kernel; a layer with adapters or forward hooks runs as it is."""
    if not has_hooks(module):
        if type(module) is nn.Linear:
            bias = None if module.bias is None else module.bias.to(x.dtype)
            return linear(x, module.weight.to(x.dtype), bias, kernel)
        if isinstance(module, Conv1D):
            weight, bias = cast("Tensor", module.weight), cast("Tensor", module.bias)
            return linear(x, weight.to(x.dtype).t(), bias.to(x.dtype), kernel)
    return _as_it_is(module, x)


def _as_it_is(module: nn.Module, x: Tensor) -> Tensor:
    """Run a module in the dtype of its weights; cast the result to the dtype of its input."""
    own = next((p.dtype for p in module.parameters() if p.is_floating_point()), x.dtype)
    result: Tensor = module(x.to(own))
    return result.to(x.dtype)


def normed(
    module: nn.Module, x: Tensor, compute: torch.dtype | None = None, native: bool = False
) -> Tensor:
    """Apply a normalisation layer: LayerNorm as it is, RMSNorm by our kernel, in a given dtype."""
    if isinstance(module, nn.LayerNorm) or has_hooks(module):
        y = _as_it_is(module, x)
    elif compiles():
        return rms_norm_to(x, module.weight, module.variance_epsilon, compute or x.dtype)  # type: ignore[arg-type]
    else:
        norm = norm_gate.rms_norm if native and module.weight.dtype == x.dtype else rms_norm
        y = norm(x, module.weight, module.variance_epsilon)  # type: ignore[arg-type]
    return y if compute is None else y.to(compute)


@compiled
def gated(gate: Tensor, up: Tensor) -> Tensor:
    """Compute the SiLU gate ``silu(gate) * up``, shape ``[N, I]``: one kernel if compiled.

    Source:
        Shazeer 2020, "GLU variants improve Transformer", arXiv:2002.05202, eq. 5 (SwiGLU).
    """
    return F.silu(gate) * up


def has_hooks(module: nn.Module) -> bool:
    """Return whether a module has hooks."""
    return bool(module._forward_hooks or module._forward_pre_hooks)
