"""Rewarded soups: weighted means of fine-tuned models."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.arguments import NonNegativeFloat
from rlcomp.errors import ConfigError, ShapeError, nearest
from rlcomp.model.adapters import merge_adapters

# Largest deviation of the sum of weights from 1, by rounding.
_ROUNDING = 1e-6


def soup(
    *,
    runs: dict[str, str],
    weights: dict[str, NonNegativeFloat],
    tokenizer: PreTrainedTokenizerBase,
    trust: bool = False,
) -> PreTrainedModel:
    """Return the weighted mean of models fine-tuned from the same weights (rewarded soup).

    Adapters are merged into their models first: the mean of ``B A`` is not the product of the means
    of ``B`` and ``A``.

    Args:
        runs: a run's directory, one of its checkpoints, or a folder written by ``save_pretrained``,
            by a name for each.
        weights: the weight of each run, by the same names; they sum to 1.
        tokenizer: the tokenizer that the models were trained with.
        trust: whether a run's config may name code that rlcomp does not ship; such code is run.

    Raises:
        ConfigError: ``weights`` has other names than ``runs``, or another sum; or a run had another
            tokenizer.
        CheckpointError: a run's config names such code, or as
            :func:`rlcomp.model.load_model.load_policy`.
        DataError: there is no readable model at a path.
        ShapeError: the models differ in a tensor.

    Source:
        Ramé et al. 2023, arXiv:2306.04488, section 2.2.
    """
    _check_weights(list(runs), weights)
    # Imported here, so that averaging models imports no configs.
    from rlcomp.model.load_model import pretrained_model

    models = {
        name: pretrained_model(path=path, tokenizer=tokenizer, trust=trust)
        for name, path in runs.items()
    }
    return mix_models(models, weights)


def mix_models(
    models: Mapping[str, PreTrainedModel], weights: Mapping[str, float]
) -> PreTrainedModel:
    """Store the weighted mean of models in the first one, make it trainable, and return it.

    Args:
        models: models of one architecture, by name; their adapters are merged in place.
        weights: the weight of each model, by the same names; they sum to 1.

    Raises:
        ConfigError: ``weights`` has other names than ``models``, or another sum.
        ShapeError: the models differ in a tensor.
    """
    merged = {name: merge_adapters(model) for name, model in models.items()}
    mean = average({name: _tensors(model) for name, model in merged.items()}, weights)
    first = next(iter(merged.values()))
    with torch.no_grad():
        for key, tensor in _tensors(first).items():
            tensor.copy_(mean[key])
    return first.requires_grad_(True)


def average(
    experts: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float]
) -> dict[str, Tensor]:
    """Return the weighted mean of states, summed in float64.

    Args:
        experts: the state of each fine-tuned model, its tensors by key, by a name for each.
        weights: the weight of each state, by the same names: at least 0, of sum 1. With all weight
            on one expert, the result equals that expert, bit by bit.

    Returns:
        New tensors in the experts' dtypes; integer tensors are those of the first expert.

    Raises:
        ConfigError: ``weights`` has other names, a negative weight, or another sum.
        ShapeError: the experts differ in a tensor.

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
    """Check that two states have the same keys and shapes."""
    for key in sorted({*wanted} ^ {*other}):
        raise ShapeError(f"soup: only one of {first!r} and {name!r} has the tensor '{key}'")
    for key, tensor in wanted.items():
        if tensor.shape != other[key].shape:
            raise ShapeError(
                f"soup: '{key}' is {[*tensor.shape]} in {first!r}, {[*other[key].shape]} in "
                f"{name!r}: only models of one shape can be averaged"
            )
