"""Low-rank adapters: LoRA (extra ``peft``), and QLoRA on four-bit weights (extra ``qlora``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from rlcomp.arguments import PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError, require
from rlcomp.files.progress_bars import only_errors


def lora(
    *,
    model: PreTrainedModel,
    rank: PositiveInt = 8,
    alpha: PositiveFloat = 16.0,
    target_modules: list[str] | str = "all-linear",
) -> PreTrainedModel:
    """Freeze a model and add trainable LoRA adapters; at first they do not change its outputs.

    There is no adapter dropout, because a policy stays in eval mode (see ``LanguageModel``).
    Adapters are float32 if the model has a narrower dtype.

    Args:
        model: changed in place, and returned.
        rank: ``r``: an adapter adds ``(alpha / r) B A`` to a weight ``[d, k]``, with ``B`` of shape
            ``[d, r]`` and ``A`` of shape ``[r, k]``.
        alpha: scale of the adapter, before the division by ``r``.
        target_modules: names of linear layers, or ``"all-linear"`` for all but the output head.

    Raises:
        ConfigError: no layer has such a name, the model already has adapters, or the releases of
            peft and transformers are incompatible.
        MissingExtra: peft is not installed.

    Source:
        Hu et al. 2021, arXiv:2106.09685, eq. 3.
    """
    with only_errors("bitsandbytes"):  # it warns of kernels that rlcomp does not use
        peft = require("peft", "peft")
    if has_adapters(model):
        raise ConfigError("model: it has adapters already; wrap it in lora once")
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules=target_modules,
        # GPT-2 stores its linear weights transposed.
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
        task_type="CAUSAL_LM",
    )
    try:
        model.add_adapter(config)
    except ValueError as error:
        linear = {
            name.rsplit(".", 1)[-1]
            for name, module in model.named_modules()
            if isinstance(module, (nn.Linear, Conv1D))
        }
        if target_modules == "all-linear" or linear.intersection(target_modules):
            installed = f"peft {peft.__version__} and transformers {transformers.__version__}"
            raise ConfigError(f"model: {installed} cannot add adapters to it: {error}") from error
        raise ConfigError(
            f"model: lora cannot adapt target_modules {target_modules!r}: set "
            f"adapter.target_modules=all-linear, or a list of linear layers "
            f"({', '.join(sorted(linear))})"
        ) from error
    for parameter in model.parameters():
        if parameter.requires_grad and torch.finfo(parameter.dtype).bits < 32:
            parameter.data = parameter.data.float()  # small steps would be lost
    return model


def has_adapters(model: PreTrainedModel) -> bool:
    """Return whether a model has adapters.

    Raises:
        MissingExtra: peft is not installed.
    """
    tuner_class = require("peft.tuners.tuners_utils", "peft").BaseTunerLayer
    return any(isinstance(module, tuner_class) for module in model.modules())


@contextlib.contextmanager
def adapters_off(model: PreTrainedModel) -> Iterator[None]:
    """Disable the adapters within the context: the model is its base model."""
    model.disable_adapters()
    try:
        yield
    finally:
        model.enable_adapters()


def qlora(
    *,
    model: PreTrainedModel,
    rank: PositiveInt = 8,
    alpha: PositiveFloat = 16.0,
    target_modules: list[str] | str = "all-linear",
) -> PreTrainedModel:
    """Freeze a model in four bits (NormalFloat) and add trainable LoRA adapters (QLoRA).

    Embedding, norms and output head keep their precision. A forward pass dequantises weights layer
    by layer, to the dtype of the model.

    Args:
        model: changed in place, and returned.
        rank: as for :func:`lora`.
        alpha: as for that function.
        target_modules: as for that function.

    Raises:
        ConfigError: there is no GPU, the model has no linear layer, or as :func:`lora`.
        MissingExtra: bitsandbytes or peft is not installed.

    Source:
        Dettmers et al. 2023, arXiv:2305.14314, section 3.
    """
    require("bitsandbytes", "qlora")
    if not _has_gpu():
        raise ConfigError(
            "adapter: qlora multiplies four-bit weights on a GPU, and torch sees none: use "
            "adapter=lora"
        )
    return lora(model=quantize(model), rank=rank, alpha=alpha, target_modules=target_modules)


def _has_gpu() -> bool:
    return torch.cuda.is_available()


def quantize(model: PreTrainedModel) -> PreTrainedModel:
    """Round the linear layers of a model, except its head, to four bits (NF4, double quantisation).

    Args:
        model: changed in place, and returned.

    Raises:
        ConfigError: the model has no linear layer besides its head.
        MissingExtra: bitsandbytes is not installed.
    """
    layers: Any = require("bitsandbytes", "qlora").nn
    head = model.get_output_embeddings()
    linear = {
        name: module
        for name, module in model.named_modules()
        if type(module) in (nn.Linear, Conv1D) and module is not head
    }
    if not linear:
        raise ConfigError("adapter: qlora finds no linear layer in this model: use adapter=lora")
    for name, module in linear.items():
        weight = module.weight.detach()
        if isinstance(module, Conv1D):  # GPT-2 stores it transposed
            weight = weight.t().contiguous()
        rounded = layers.Linear4bit(
            *reversed(weight.shape),
            bias=module.bias is not None,
            compute_dtype=weight.dtype,
            quant_type="nf4",
        )
        rounded.weight = layers.Params4bit(weight, requires_grad=False, quant_type="nf4")
        rounded.bias = module.bias
        parent, _, child = name.rpartition(".")
        # bitsandbytes rounds a weight when it is moved, also to the device where it is.
        setattr(model.get_submodule(parent), child, rounded.to(weight.device))
    # peft and rlcomp's engine read this flag.
    model.is_loaded_in_4bit = True
    return model


def dequantize(module: Any) -> nn.Linear:  # noqa: ANN401
    """Convert a ``bitsandbytes.nn.Linear4bit`` to a linear layer in its compute precision."""
    functional: Any = require("bitsandbytes", "qlora").functional
    weight = cast(
        "Tensor", functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
    )
    plain = nn.Linear(module.in_features, module.out_features, device="meta")
    plain.weight = nn.Parameter(weight, requires_grad=False)
    plain.bias = module.bias
    return plain


def merge_adapters(model: PreTrainedModel) -> PreTrainedModel:
    """Merge every LoRA adapter into its base layer.

    An adapter may change a head or an embedding that share one weight. Then they get separate
    weights first.

    Args:
        model: changed in place, and returned.
    """
    if not any("lora_" in name for name, _ in model.named_parameters()):
        return model
    tuner_class = require("peft.tuners.tuners_utils", "peft").BaseTunerLayer
    _untie(model, tuner_class)
    for name, module in [*model.named_modules()]:
        parent, _, child = name.rpartition(".")
        if isinstance(module, tuner_class) and child != "base_layer":
            setattr(model.get_submodule(parent), child, _merge_layer(module, tuner_class))
    # Otherwise save_pretrained would look for adapters to save.
    model._hf_peft_config_loaded = False
    model.is_loaded_in_4bit = False
    return model


def _merge_layer(module: Any, tuner_class: Any) -> Any:  # noqa: ANN401
    """Return a layer with its adapters merged; four-bit weights are dequantised."""
    weight = getattr(module.get_base_layer(), "weight", None)  # None for experts
    if not hasattr(weight, "quant_state"):
        while isinstance(module, tuner_class):  # experts have a layer of adapters for each weight
            module.merge()
            module = module.base_layer
        return module
    plain = dequantize(module.get_base_layer())
    with torch.no_grad():
        for adapter in module.active_adapters:
            plain.weight += module.get_delta_weight(adapter)
    return plain


def _untie(model: PreTrainedModel, tuner_class: Any) -> None:  # noqa: ANN401
    """Give the head a weight of its own if it shares one and an adapter changes either layer."""
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    is_adapted = isinstance(table, tuner_class) or isinstance(head, tuner_class)
    if table.weight is head.weight and is_adapted:
        plain = head.get_base_layer() if isinstance(head, tuner_class) else head
        plain.weight = nn.Parameter(head.weight.detach().clone(), head.weight.requires_grad)
        model.config.tie_word_embeddings = False
