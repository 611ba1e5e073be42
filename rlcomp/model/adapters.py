"""LoRA: low-rank adapters (extra ``peft``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import transformers
from torch import nn
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
    """Freeze a model and add trainable LoRA adapters; they start as the identity.

    There is no adapter dropout, because a policy stays in eval mode (see ``LanguageModel``).
    Adapters are float32 if the model has a narrower dtype.

    Args:
        model: changed in place, and returned.
        rank: ``r``, columns of each low-rank factor.
        alpha: the adapter's output is scaled by ``alpha / rank``.
        target_modules: names of linear layers, or ``"all-linear"`` for all but the output head.

    Raises:
        ConfigError: no layer has such a name, the model already has adapters, or the releases of
            peft and transformers are incompatible.
        MissingExtra: peft is not installed.

    Source:
        Hu et al. 2021, arXiv:2106.09685, eq. 3.
    """
    with only_errors("bitsandbytes"):  # it warns of kernels that are not used here
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
    layer = require("peft.tuners.tuners_utils", "peft").BaseTunerLayer
    return any(isinstance(module, layer) for module in model.modules())


@contextlib.contextmanager
def adapters_off(model: PreTrainedModel) -> Iterator[None]:
    """Disable the adapters in a context: the model is its base model there."""
    model.disable_adapters()
    try:
        yield
    finally:
        model.enable_adapters()
