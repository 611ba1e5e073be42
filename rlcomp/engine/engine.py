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
_TOLD = "%s: packed forward pass, linear layers by %s, attention, norms and softmax by %s"


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Compute engine of a language model; changes speed and memory, and results only by rounding.

    Attributes:
        forward: ``packed`` is our own pass over the model's weights: no padding, every prompt is
            read once for all of its answers, and finished answers are dropped from sampling.
            ``transformers`` is the model's own pass. ``auto`` takes ``packed`` if it knows the
            architecture (Llama, Qwen2, Qwen3, GPT-2) and agrees with the model's own pass on a few
            tokens. The log names the choice.
        linear: kernel of the linear layers. ``torch``, ``onednn`` and ``bf16x6`` are all float32.
            ``bf16x6`` takes six bfloat16 products on a CPU's matrix unit (Intel AMX), in scoring
            and updates, by one thread. ``auto`` takes it where possible, else ``torch``, or
            ``onednn`` where a start-up probe finds it clearly faster. ``bfloat16`` rounds the
            factors of every product to three decimal digits, and keeps weights and sums in float32.
            ``tf32`` rounds them to TF32, four digits, on a GPU, and is ``torch`` elsewhere. Only
            the packed forward pass uses this option. Whatever its value, sampling on a CPU keeps
            large matrices in oneDNN's layout, because products with few rows are faster in it.
        compute: ``bfloat16`` computes everything between the embedding and the log-probs in half
            precision, attention included. The residual stream is not rounded, and weights,
            gradients and moments stay as they are; products and norms are summed in float32.
            ``weights`` takes the dtype of the weights. Only the packed forward pass uses this
            option.
        checkpointing: gradient checkpointing. Only the input of each layer is kept for the backward
            pass, and the rest is computed again. This saves the memory of the layers' intermediate
            results. An update takes a third longer; its numbers are the same.
        decode: sampling loop of the packed forward pass on a CPU. ``native`` is a loop in C++,
            float32, several times faster for small models. ``torch`` is the reference loop.
            ``auto`` takes ``native`` if its library was compiled for this processor and supports
            the options: it has no filters (top-k, top-p, min-p), no half precision and no GPU. The
            log names the choice and the reason.
        update: implementation of attention, norms, rotary embedding, gate and functions of the
            logits in the packed pass, forward and backward. ``native`` is the library compiled with
            rlcomp: float32, on a CPU, by one thread. ``torch`` is PyTorch. ``auto`` takes
            ``native`` where possible. The log names the choice and the reason.
        compile: whether torch.compile fuses the kernels between the products of scoring and of
            updates. Meant for a GPU, where it needs Triton; each kernel takes some seconds once. On
            a CPU it needs a C++ compiler, and the parts that are ``native`` stay native. Only the
            packed forward pass uses this option.
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
        if self.forward == "transformers" and self.linear not in ("auto", "torch"):
            raise ConfigError(
                f"engine.linear is {self.linear}, which the forward pass of transformers does not "
                "heed: use engine.forward=auto, or engine.linear=torch"
            )
        if self.forward == "transformers" and self.update == "native":
            raise ConfigError(
                "engine.update is native, which the forward pass of transformers does not heed: "
                "use engine.forward=auto, or engine.update=torch"
            )
        if self.forward == "transformers" and self.compute != "weights":
            raise ConfigError(
                f"engine.compute is {self.compute}, which the forward pass of transformers does "
                "not heed: use engine.forward=auto, or engine.compute=weights"
            )
        if self.forward == "transformers" and self.compile:
            raise ConfigError(
                "engine.compile is true, which the forward pass of transformers does not heed: use "
                "engine.forward=auto, or engine.compile=false"
            )
        if self.forward == "transformers" and self.decode == "native":
            raise ConfigError(
                "engine.decode is native, which reads the weights of the packed forward pass: use "
                "engine.forward=auto, or engine.decode=auto"
            )

    def transformer(self, model: PreTrainedModel) -> Transformer | None:
        """Return the native forward pass for a model; None to use the model's own.

        Args:
            model: a causal model in eval mode.

        Raises:
            ConfigError: ``forward`` is ``packed``, and the model is unknown or the two passes
                disagree.
        """

        def theirs(ids: Tensor) -> Tensor:
            return model(input_ids=ids).logits  # type: ignore[no-any-return]

        return self._checked(model, model, layers, theirs)

    def backbone(self, model: PreTrainedModel, backbone: nn.Module) -> Transformer | None:
        """Return the native forward pass for a copied backbone; None to use the backbone's own.

        Args:
            model: the model it was copied from.
            backbone: without an output head.
        """

        def theirs(ids: Tensor) -> Tensor:
            return backbone(input_ids=ids).last_hidden_state  # type: ignore[no-any-return]

        return self._checked(model, backbone, backbone_layers, theirs)

    def _checked(
        self,
        model: PreTrainedModel,
        owner: nn.Module,
        read: Callable[[nn.Module], Layers],
        theirs: Callable[[Tensor], Tensor],
    ) -> Transformer | None:
        if self.forward == "transformers":
            self._keep_less(owner)
            return None
        name, why = model.config.model_type, why_unsupported(model)
        if why is None:
            if _agree(Transformer(owner, read, "torch"), theirs, model.device):
                kernel, why = self._kernel(model), self._why_not_native(model)
                rest = "the native library" if why is None else f"torch ({why})"
                _LOG.info(_TOLD, name, kernel, rest)
                native = why is None
                self._warn_of_absence(model)
                compute = None if self.compute == "weights" else torch.bfloat16
                keep = self.checkpointing
                return Transformer(owner, read, kernel, keep, compute, native, self.compile)
            why = "it gives other numbers than the model's own"
        if self.forward == "packed":
            raise ConfigError(
                f"engine.forward is packed, but our own forward pass cannot read this model "
                f"({name}): {why}; use engine=auto"
            )
        note = "" if self.linear in ("auto", "torch") else f"; engine.linear={self.linear} is lost"
        note += "" if self.compute == "weights" else f"; engine.compute={self.compute} is lost"
        note += "; engine.compile is lost" if self.compile else ""
        _LOG.warning(
            "%s: the forward pass of transformers, slower than ours: %s%s", name, why, note
        )
        self._keep_less(owner)
        return None

    def _why_not_native(self, model: PreTrainedModel) -> str | None:
        """Return why the update does not use the library's kernels; None if it does.

        Raises:
            ConfigError: ``update`` is ``native``, and the library is missing or does not support
                the model.
        """
        why = "engine.update=torch" if self.update == "torch" else self._not_native(model)
        if why is not None and self.update == "native":
            raise ConfigError(f"engine.update is native, but {why}; use engine.update=auto")
        return why

    def _warn_of_absence(self, model: PreTrainedModel) -> None:
        """Warn if the library would be used and is missing."""
        plain = self.compute == "weights" and model.dtype == torch.float32
        is_usable = model.device.type == "cpu" and plain and "auto" in (self.decode, self.update)
        if is_usable and (reason := why_missing()) is not None:
            warn_of_absence(reason)

    def _not_native(self, model: PreTrainedModel) -> str | None:
        if model.device.type != "cpu":
            return f"the model is on {model.device.type}"
        if self.compute != "weights" or model.dtype != torch.float32:
            return f"the model computes in {self._dtype(model)}, the library in float32"
        if torch.get_num_threads() > 1:
            return f"torch has {torch.get_num_threads()} threads, the library one"
        return why_missing()

    def _dtype(self, model: PreTrainedModel) -> str:
        return (
            str(model.dtype).removeprefix("torch.") if self.compute == "weights" else self.compute
        )

    def _keep_less(self, owner: nn.Module) -> None:
        if self.checkpointing:
            checkpoint_layers(owner)

    def not_native(self, transformer: Transformer | None, decoding: Decoding) -> str | None:
        """Return why the loop in C++ does not sample; None if it does.

        Args:
            transformer: of the model; None where the model's own forward pass is used.
            decoding: the distribution to draw from.

        Raises:
            ConfigError: ``decode`` is ``native``, and the loop cannot sample.
        """
        if self.decode == "torch":
            return "engine.decode is torch"
        if transformer is None:
            why: str | None = "the forward pass is that of transformers"
        else:
            why = why_missing() or unsupported_model(transformer) or unsupported_decoding(decoding)
        if why is not None and self.decode == "native":
            raise ConfigError(f"engine.decode is native, but {why}; use engine.decode=auto")
        return why

    def _kernel(self, model: PreTrainedModel) -> Kernel:
        """Return the matmul kernel.

        Raises:
            ConfigError: oneDNN is requested and missing; or BF16x6 is requested and does not
                support the model.
        """
        if self.linear == "onednn" and not has_onednn():
            raise ConfigError(
                "engine.linear is onednn, which this build of torch lacks: use auto or torch"
            )
        wanted = self.linear
        if wanted != "auto" and wanted != "bf16x6":
            return wanted
        why = self._not_native(model) or bf16x6.why_missing_bf16x6()
        if why is not None and wanted == "bf16x6":
            raise ConfigError(f"engine.linear is bf16x6, but {why}; use auto or torch")
        return "bf16x6" if why is None else faster_kernel()


# The default: the fastest choice among those that give the same numbers.
AUTO = Engine()


@torch.no_grad()
def _agree(
    transformer: Transformer, theirs: Callable[[Tensor], Tensor], device: torch.device
) -> bool:
    """Return whether both passes give the same states for a few tokens, up to rounding."""
    rows = [[0, 1, 0, 1], [1, 1, 0]]
    ours, head = transformer(pack_prompts(rows, device), None)
    if head is not None:
        ours = linear(ours, head.weight, head.bias, head.kernel)
    expected = torch.cat([theirs(torch.tensor([row], device=device))[0] for row in rows])
    # The norms of transformers round to float32 even where all else is float64.
    coarse = torch.float32 if expected.dtype == torch.float64 else expected.dtype
    rounding = torch.finfo(coarse).eps ** 0.7 * expected.abs().max()
    return bool((ours - expected).abs().max() <= rounding)
