"""Rewarded soups: weight averaging of fine-tuned models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.arguments import NonNegativeFloat
from rlcomp.errors import ConfigError, ShapeError, nearest, require
from rlcomp.model.quantized import dequantized

_ROUNDING = 1e-6


def soup(
    *,
    runs: dict[str, str],
    weights: dict[str, NonNegativeFloat],
    tokenizer: PreTrainedTokenizerBase,
    trust: bool = False,
) -> PreTrainedModel:
    """Average models fine-tuned from the same weights, weighted (rewarded soup).

    Adapters are merged into their model first, so that the result is a plain model: the mean of ``B
    A`` is not the product of the means of ``B`` and ``A``.

    Args:
        runs: by name: a run's directory, one of its checkpoints, or a folder written by
            ``save_pretrained``.
        weights: by the same names, of sum 1.
        tokenizer: the tokenizer that they were trained with.
        trust: whether a run's config may name code that rlcomp does not ship; such code is run.

    Raises:
        ConfigError: the names of ``weights`` are not those of ``runs``, or the sum is not 1; or a
            run had another tokenizer.
        CheckpointError: a run's config names such code.
        ShapeError: the models differ in a tensor.

    Source:
        Ramé et al. 2023, arXiv:2306.04488, section 2.2.
    """
    _check_weights(list(runs), weights)
    # Imported here, so that mixing models by hand needs no configs.
    from rlcomp.model.load_model import pretrained_model

    models = {
        name: pretrained_model(path=path, tokenizer=tokenizer, trust=trust)
        for name, path in runs.items()
    }
    return mixed(models, weights)


def mixed(models: Mapping[str, PreTrainedModel], weights: Mapping[str, float]) -> PreTrainedModel:
    """Store the weighted mean of models in the first of them; merge every adapter in place.

    Args:
        models: by name, of one architecture; changed in place.
        weights: by the same names, of sum 1.

    Returns:
        The first model; all of it is trainable.

    Raises:
        ConfigError: the names of ``weights`` are not those of ``models``, or the sum is not 1.
        ShapeError: the models differ in a tensor.
    """
    first, *_ = plain = [merge_adapters(model) for model in models.values()]
    experts = dict(zip(models, map(_tensors, plain), strict=True))
    mean = average(experts, weights)
    with torch.no_grad():
        for key, tensor in _tensors(first).items():
            tensor.copy_(mean[key])
    return first.requires_grad_(True)


def merge_adapters(model: PreTrainedModel) -> PreTrainedModel:
    """Merge every LoRA adapter into its base layer.

    If an adapter changes the head or the embedding, and these share their weight, each gets its own
    copy: otherwise the addition to one would change the other.

    Args:
        model: changed in place, and returned; one without adapters is not changed.
    """
    if not any("lora_" in name for name, _ in model.named_parameters()):
        return model
    layer = require("peft.tuners.tuners_utils", "peft").BaseTunerLayer
    _untie(model, layer)
    for name, module in [*model.named_modules()]:
        parent, _, own = name.rpartition(".")
        if isinstance(module, layer) and own != "base_layer":
            setattr(model.get_submodule(parent), own, _merged(module, layer))
    # Otherwise save_pretrained would look for adapters to save.
    model._hf_peft_config_loaded = False
    model.is_loaded_in_4bit = False
    return model


def _merged(module: Any, layer: Any) -> Any:  # noqa: ANN401
    """Return a layer with its adapters merged; four-bit weights are dequantised."""
    weight = getattr(module.get_base_layer(), "weight", None)  # experts have several
    if not hasattr(weight, "quant_state"):
        while isinstance(module, layer):  # experts have a layer of adapters for each weight
            module.merge()
            module = module.base_layer
        return module
    plain = dequantized(module.get_base_layer())
    with torch.no_grad():
        for adapter in module.active_adapters:
            plain.weight += module.get_delta_weight(adapter)
    return plain


def _untie(model: PreTrainedModel, layer: Any) -> None:  # noqa: ANN401
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    if table.weight is head.weight and (isinstance(table, layer) or isinstance(head, layer)):
        plain = head.get_base_layer() if isinstance(head, layer) else head
        plain.weight = nn.Parameter(head.weight.detach().clone(), head.weight.requires_grad)
        model.config.tie_word_embeddings = False


def average(
    experts: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float]
) -> dict[str, Tensor]:
    """Return the weighted mean of states, summed in float64.

    Args:
        experts: by name: tensors by key.
        weights: by the same names, at least 0, of sum 1. With all weight on one expert, the result
            equals that expert, bit by bit.

    Returns:
        New tensors in the experts' dtypes; integer tensors are those of the first expert.

    Raises:
        ConfigError: the names are not those of ``experts``; or a weight is negative, or the sum not
            1.
        ShapeError: the experts differ in a tensor; names it.

    Examples:
        >>> states = {"a": {"w": torch.tensor([0.0])}, "b": {"w": torch.tensor([4.0])}}
        >>> average(states, {"a": 0.75, "b": 0.25})
        {'w': tensor([1.])}
    """
    _check_weights(list(experts), weights)
    first, *_ = experts
    for name, expert in experts.items():
        _check_alike(first, experts[first], name, expert)
    shares = [weights[name] for name in experts]
    return {
        key: _mean([expert[key] for expert in experts.values()], shares) for key in experts[first]
    }


def _mean(tensors: list[Tensor], shares: list[float]) -> Tensor:
    first = tensors[0].detach()
    if not first.is_floating_point():
        return first.clone()
    # Tensors of weight 0 are left out: they may hold NaN.
    parts = [share * t.detach().double() for share, t in zip(shares, tensors, strict=True) if share]
    return torch.stack(parts).sum(0).to(first.dtype)


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers; tied ones once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _check_weights(names: list[str], weights: Mapping[str, float]) -> None:
    for name in weights:
        if name not in names:
            raise ConfigError(f"soup: weights names {name!r}{nearest(name, names)}")
    for name in names:
        if name not in weights:
            raise ConfigError(f"soup: weights has none for {name!r}: set it, 0 for none")
    total = sum(weights.values())
    if not abs(total - 1) <= _ROUNDING or min(weights.values()) < 0:
        raise ConfigError(f"soup: weights is {dict(weights)}: must be at least 0 and sum to 1")


def _check_alike(
    first: str, wanted: Mapping[str, Tensor], name: str, other: Mapping[str, Tensor]
) -> None:
    for key in sorted({*wanted} ^ {*other}):
        raise ShapeError(f"soup: only one of {first!r} and {name!r} has the tensor '{key}'")
    for key, tensor in wanted.items():
        if tensor.shape != other[key].shape:
            raise ShapeError(
                f"soup: '{key}' is {[*tensor.shape]} in {first!r}, {[*other[key].shape]} in "
                f"{name!r}: only models of one shape can be averaged"
            )
