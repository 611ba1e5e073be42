"""QLoRA: low-rank adapters on weights in four bits (extra ``qlora``)."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from rlcomp.arguments import PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError, require
from rlcomp.model.adapters import lora


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
        rank: as for :func:`rlcomp.model.adapters.lora`.
        alpha: as for that function.
        target_modules: as for that function.

    Raises:
        ConfigError: there is no GPU.
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
        ConfigError: it has adapters, or no linear layer that can be rounded.
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
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, rounded.to(weight.device))
    # peft and our engine read this flag.
    model.is_loaded_in_4bit = True
    return model


def dequantized(module: Any) -> nn.Linear:  # noqa: ANN401
    """Convert a linear layer of four-bit weights to the precision of its products.

    Args:
        module: a ``bitsandbytes.nn.Linear4bit``.
    """
    functional: Any = require("bitsandbytes", "qlora").functional
    weight = cast(
        "Tensor", functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
    )
    plain = nn.Linear(module.in_features, module.out_features, device="meta")
    plain.weight = nn.Parameter(weight, requires_grad=False)
    plain.bias = module.bias
    return plain
