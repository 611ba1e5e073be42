"""Compute engine of a language model: forward implementation and matmul kernel."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from rlcomp.component import check_arguments
from rlcomp.engine.architectures import backbone_layers, layers, why_unsupported
from rlcomp.engine.autograd import checkpoint_layers
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.linear import Kernel, faster_kernel, has_onednn, linear
from rlcomp.engine.native import bf16x6
from rlcomp.engine.native.library import warn_of_absence, why_missing
from rlcomp.engine.native.session import unsupported_decoding
from rlcomp.engine.native.weights import unsupported_model
from rlcomp.engine.packing import pack_prompts
from rlcomp.engine.transformer import Layers, Transformer
from rlcomp.errors import ConfigError

_LOG = logging.getLogger(__name__)
_CHOICE = "%s: packed forward pass, linear layers by %s, attention, norms and softmax by %s"


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Compute engine of a language model; changes speed and memory, and results only by rounding.

    Attributes:
        forward: ``packed`` is our own pass over the model's weights, without padding: a prompt is
            computed once for all of its answers. ``transformers`` is the model's own pass. ``auto``
            is ``packed`` if it supports the architecture (Llama, Qwen2, Qwen3, GPT-2) and agrees
            with the model's own pass on a few tokens. The log names the choice. The other options,
            except ``checkpointing``, need the packed pass.
        linear: kernel of the linear layers. ``torch``, ``onednn`` and ``bf16x6`` are float32.
            ``bf16x6`` takes six bfloat16 products on Intel AMX, in scoring and updates, in one
            thread. ``auto`` is ``bf16x6`` where supported, else ``torch``, or ``onednn`` where a
            start-up probe measures that it is clearly faster. ``bfloat16`` rounds the factors of
            every product to 8 binary digits, and keeps weights and sums in float32. ``tf32`` rounds
            the factors to TF32, 11 binary digits, on a GPU, and is ``torch`` elsewhere. Sampling
            on a CPU always keeps large matrices in oneDNN's layout, in which products with few rows
            are faster.
        compute: ``bfloat16`` computes everything between the embedding and the log-probs in half
            precision, attention included. The residual stream, weights, gradients and moments are
            not rounded; products and norms are summed in float32. ``weights`` is the dtype of the
            weights.
        checkpointing: gradient checkpointing: the backward pass computes the layers' intermediate
            results again, which saves their memory. An update takes a third longer.
        decode: sampling loop on a CPU. ``native`` is a loop in C++, float32, several times faster
            for small models, without filters (top-k, top-p, min-p). ``torch`` is the reference
            loop. ``auto`` is ``native`` where supported. The log names the choice and the reason.
        update: implementation of attention, norms, rotary embedding, gate and logit functions,
            forward and backward. ``native`` is the library compiled with rlcomp: float32, on a CPU,
            in one thread. ``torch`` is PyTorch. ``auto`` is ``native`` where supported. The log
            names the choice and the reason.
        compile: whether torch.compile fuses the kernels between the products of scoring and of
            updates. Meant for a GPU, where it needs Triton; each kernel takes some seconds once. On
            a CPU it needs a C++ compiler; native functions are not compiled.
    """

    forward: Literal["auto", "packed", "transformers"] = "auto"
    linear: Literal["auto", "torch", "onednn", "bf16x6", "tf32", "bfloat16"] = "auto"
    compute: Literal["weights", "bfloat16"] = "weights"
    checkpointing: bool = False
    decode: Literal["auto", "native", "torch"] = "auto"
    update: Literal["auto", "native", "torch"] = "auto"
    compile: bool = False

    def __post_init__(self) -> None:
        check_arguments(type(self), (), asdict(self))
        if self.forward != "transformers":
            return
        for name, value, is_ineffective, remedy in (
            ("linear", self.linear, self.linear not in ("auto", "torch"), "torch"),
            ("update", self.update, self.update == "native", "torch"),
            ("compute", self.compute, self.compute != "weights", "weights"),
            ("compile", "true", self.compile, "false"),
            ("decode", self.decode, self.decode == "native", "auto"),
        ):
            if is_ineffective:
                raise ConfigError(
                    f"engine.{name} is {value}, which has no effect in the forward pass of "
                    f"transformers: use engine.forward=auto, or engine.{name}={remedy}"
                )

    def transformer(self, model: PreTrainedModel) -> Transformer | None:
        """Return the packed forward pass of a model in eval mode; None to use the model's own.

        Raises:
            ConfigError: ``forward`` is ``packed``, and the model is not supported or the two passes
                disagree; or the model does not support another requested option.
        """

        def own_pass(ids: Tensor) -> Tensor:
            return model(input_ids=ids).logits  # type: ignore[no-any-return]

        return self._choose_pass(model, model, layers, own_pass)

    def backbone(self, model: PreTrainedModel, backbone: nn.Module) -> Transformer | None:
        """Return the packed forward pass of a copied backbone; None to use the backbone's own.

        Args:
            model: the model of the backbone.
            backbone: a copy, without output head.

        Raises:
            ConfigError: as in :meth:`transformer`.
        """

        def own_pass(ids: Tensor) -> Tensor:
            return backbone(input_ids=ids).last_hidden_state  # type: ignore[no-any-return]

        return self._choose_pass(model, backbone, backbone_layers, own_pass)

    def _choose_pass(
        self,
        model: PreTrainedModel,
        owner: nn.Module,
        read: Callable[[nn.Module], Layers],
        own_pass: Callable[[Tensor], Tensor],
    ) -> Transformer | None:
        """Return the packed forward pass, or None.

        Args:
            model: the whole model.
            owner: the module that holds the weights: the model, or a copied backbone.
            read: returns the modules of the owner.
            own_pass: the owner's own forward pass, from ids ``[1, T]`` to an output ``[1, T, n]``.
        """
        if self.forward == "transformers":
            self._checkpoint(owner)
            return None
        name, reason = model.config.model_type, why_unsupported(model)
        if reason is None:
            if _agree(Transformer(owner, read, "torch"), own_pass, model.device):
                return self._packed(model, owner, read)
            reason = "it gives other numbers than the model's own"
        if self.forward == "packed":
            raise ConfigError(
                "engine.forward is packed, but the packed forward pass does not support this "
                f"model ({name}): {reason}; use engine=auto"
            )
        note = "" if self.linear in ("auto", "torch") else f"; engine.linear={self.linear} is lost"
        note += "" if self.compute == "weights" else f"; engine.compute={self.compute} is lost"
        note += "; engine.compile is lost" if self.compile else ""
        _LOG.warning(
            "%s: the forward pass of transformers, slower than ours: %s%s", name, reason, note
        )
        self._checkpoint(owner)
        return None

    def _packed(
        self, model: PreTrainedModel, owner: nn.Module, read: Callable[[nn.Module], Layers]
    ) -> Transformer:
        kernel, reason = self._kernel(model), self._why_torch_update(model)
        update = "the native library" if reason is None else f"torch ({reason})"
        _LOG.info(_CHOICE, model.config.model_type, kernel, update)
        self._warn_of_absence(model)
        compute = None if self.compute == "weights" else torch.bfloat16
        native = reason is None
        return Transformer(owner, read, kernel, self.checkpointing, compute, native, self.compile)

    def _why_torch_update(self, model: PreTrainedModel) -> str | None:
        """Return why the update does not use the native library; None if it does.

        Raises:
            ConfigError: ``update`` is ``native``, and the library is missing or does not support
                the model.
        """
        reason = "engine.update=torch" if self.update == "torch" else self._why_not_native(model)
        if reason is not None and self.update == "native":
            raise ConfigError(f"engine.update is native, but {reason}; use engine.update=auto")
        return reason

    def _warn_of_absence(self, model: PreTrainedModel) -> None:
        """Warn if the native library would be used but is missing."""
        is_float32 = self.compute == "weights" and model.dtype == torch.float32
        is_auto = "auto" in (self.decode, self.update)
        is_usable = model.device.type == "cpu" and is_float32 and is_auto
        if is_usable and (reason := why_missing()) is not None:
            warn_of_absence(reason)

    def _why_not_native(self, model: PreTrainedModel) -> str | None:
        """Return why the native library cannot compute updates of a model; None if it can."""
        if model.device.type != "cpu":
            return f"the model is on {model.device.type}"
        if self.compute != "weights" or model.dtype != torch.float32:
            dtype = str(model.dtype) if self.compute == "weights" else self.compute
            return f"the model computes in {dtype.removeprefix('torch.')}, the library in float32"
        if torch.get_num_threads() > 1:
            return f"torch has {torch.get_num_threads()} threads, the library one"
        return why_missing()

    def _checkpoint(self, owner: nn.Module) -> None:
        if self.checkpointing:
            checkpoint_layers(owner)

    def why_torch_loop(self, transformer: Transformer | None, decoding: Decoding) -> str | None:
        """Return why the native loop does not sample; None if it does.

        Args:
            transformer: the packed forward pass; None for the model's own.
            decoding: the distribution to draw from.

        Raises:
            ConfigError: ``decode`` is ``native``, and the native loop does not support it.
        """
        if self.decode == "torch":
            return "engine.decode is torch"
        if transformer is None:
            reason: str | None = "the forward pass is that of transformers"
        else:
            reason = (
                why_missing() or unsupported_model(transformer) or unsupported_decoding(decoding)
            )
        if reason is not None and self.decode == "native":
            raise ConfigError(f"engine.decode is native, but {reason}; use engine.decode=auto")
        return reason

    def _kernel(self, model: PreTrainedModel) -> Kernel:
        """Return the matmul kernel.

        Raises:
            ConfigError: the requested kernel is missing or does not support the model.
        """
        if self.linear == "onednn" and not has_onednn():
            raise ConfigError(
                "engine.linear is onednn, which this build of torch lacks: use auto or torch"
            )
        if self.linear != "auto" and self.linear != "bf16x6":
            return self.linear
        reason = self._why_not_native(model) or bf16x6.why_missing_bf16x6()
        if reason is not None and self.linear == "bf16x6":
            raise ConfigError(f"engine.linear is bf16x6, but {reason}; use auto or torch")
        return "bf16x6" if reason is None else faster_kernel()


AUTO = Engine()


@torch.no_grad()
def _agree(
    transformer: Transformer, own_pass: Callable[[Tensor], Tensor], device: torch.device
) -> bool:
    """Return whether both passes give the same output for a few tokens, up to rounding.

    The outputs are logits; without an output head, last hidden states.
    """
    rows = [[0, 1, 0, 1], [1, 1, 0]]
    states, head = transformer(pack_prompts(rows, device), None)
    if head is not None:
        states = linear(states, head.weight, head.bias, head.kernel)
    expected = torch.cat([own_pass(torch.tensor([row], device=device))[0] for row in rows])
    # The norms of transformers round to float32 even in float64 models.
    dtype = torch.float32 if expected.dtype == torch.float64 else expected.dtype
    rounding = torch.finfo(dtype).eps ** 0.7 * expected.abs().max()
    return bool((states - expected).abs().max() <= rounding)
