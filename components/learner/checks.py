"""Checks of a learner: its losses, batches, sampling settings, and gradients of its losses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from rlcomp.canonical import lacking, written_by_hand
from rlcomp.component import Component
from rlcomp.config.checks.foreign_losses import refusal
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.interfaces.loss import Loss, Part
from rlcomp.interfaces.policy import Policy
from rlcomp.keys import dotted, nested
from rlcomp.metrics import recording


def check_losses(losses: dict[str, TensorDictModuleBase]) -> None:
    """Refuse modules that are no losses.

    Raises:
        ConfigError: names the module and its kind.
    """
    for name, loss in losses.items():
        if isinstance(loss, Loss):
            continue
        kinds = [(kind.__module__, kind.__name__) for kind in type(loss).__mro__]
        known = next(
            (reason for kind in kinds if kind[1] != "Module" and (reason := refusal(*kind))), None
        )
        # A foreign module takes TensorDicts if it lists its keys, whatever its base class.
        written = list(getattr(loss, "out_keys", ()))
        if known is None and not any(str(key).startswith("loss") for key in written):
            known = (
                f"it writes {written or 'no TensorDict'}, but a loss writes at least one scalar "
                "whose name starts with 'loss'; subclass rlcomp.TokenLoss or rlcomp.RowLoss"
            )
        if known is not None:
            raise ConfigError(f"learner.losses.{name} is a {type(loss).__name__}: {known}")


def wanted_keys(losses: dict[str, TensorDictModuleBase]) -> set[str]:
    """Return the keys that the losses and their parts read, optional ones included."""
    wanted = {key for loss in losses.values() for key in loss.in_keys}
    for part in (part for loss in losses.values() for part in loss.modules()):
        if isinstance(part, Component):
            wanted |= {*part.in_keys, *(part.renames.get(key, key) for key in part.optional)}
    return wanted


def check_rows(name: str, batch: TensorDict, losses: Iterable[Loss], written: set[str]) -> None:
    """Refuse a batch that lacks a key of the losses, unless the model or a part writes it.

    Args:
        name: of the learner.
        batch: of a loop of one's own.
        losses: with their parts.
        written: keys that the model writes.

    Raises:
        ConfigError: names all such keys, and the stages that write them.
    """
    parts = [part for loss in losses for part in loss.modules() if isinstance(part, Component)]
    needed = dict.fromkeys(dotted(key) for part in parts for key in part.in_keys)
    inner = {
        dotted(key) for part in parts for key in (*part.out_keys, *part.supplies, *part.may_write)
    }
    inner |= {key for part in parts if isinstance(part, Part) for key in part.step_keys}
    missing = [key for key in needed if key not in {*batch.keys(), *inner, *written}]
    if missing:
        raise ConfigError(f"{lacking(name, missing, batch.keys())}{written_by_hand(missing)}")


def check_micro_batches(
    losses: dict[str, TensorDictModuleBase], micro_batch_tokens: int | None
) -> None:
    """Refuse micro-batches where a foreign loss averages over the rows of a batch.

    Raises:
        ConfigError: names the loss.
    """
    foreign = [name for name, loss in losses.items() if not isinstance(loss, Loss)]
    if foreign and micro_batch_tokens is not None:
        raise ConfigError(
            f"learner.micro_batch_tokens is {micro_batch_tokens}, but loss '{foreign[0]}' "
            "averages over the rows it is given: splitting would change it; set it to null"
        )


def check_sampling(decoding: Decoding, steps: int) -> None:
    """Refuse truncated sampling that is not replayed, with several optimiser steps a batch.

    Raises:
        ConfigError: the sampling is truncated and not replayed, or the policy is greedy.
    """
    if steps > 1 and decoding.truncates and not decoding.replay:
        raise ConfigError(
            f"decoding is {decoding} and learner.num_minibatches * learner.epochs is "
            f"{steps}: after the first step the policy would keep other tokens than the "
            "sampler did; use decoding=full, decoding.replay=true, or one optimiser step a "
            "batch"
        )
    if decoding.temperature == 0:
        raise ConfigError(
            "decoding.temperature is 0: a greedy policy has no gradient; set it above 0"
        )


def check_routes(model: object, batch: TensorDict, wanted: Collection[str]) -> None:
    """Refuse a policy update without the routes that ``decoding.keep_routing`` requires.

    Demonstrations have no routes: the model chooses.

    Raises:
        ConfigError: names the part that writes them.
    """
    mode = model.decoding.keep_routing if isinstance(model, Policy) else "none"
    if mode == "none" or "old_log_probs" not in wanted or "routed_experts" in batch.keys():
        return
    writer = {
        "proximal": "set old_log_probs=recomputed, which chooses them",
        "rollout": "its rows are not the policy's own rollouts; set keep_routing=none",
    }
    raise ConfigError(
        f"decoding.keep_routing is {mode}, but the batch has no routed_experts: {writer[mode]}"
    )


def reading_advantage(losses: dict[str, TensorDictModuleBase]) -> list[str]:
    """Return the names of the losses that are evaluated once per objective.

    Raises:
        ConfigError: there is none, or one of the losses holds its own model.
    """
    names = []
    for name, loss in losses.items():
        if not isinstance(loss, Loss):
            raise ConfigError(
                f"learner.losses.{name} is no loss of tokens' advantages ({type(loss).__name__}): "
                "it cannot be told the objectives apart; use learner=gradient"
            )
        parts = [part for part in loss.modules() if isinstance(part, Component)]
        if any("advantage" in part.in_keys for part in parts):
            names.append(name)
    if not names:
        raise ConfigError(
            f"learner.losses ({', '.join(losses)}): none reads 'advantage', so there is no "
            "objective to weigh; add a policy loss (losses.policy=${loss}) or use learner=gradient"
        )
    return names


def compared_parameters(named: Iterable[tuple[str, Tensor]], pattern: str | None) -> list[Tensor]:
    """Return the trained parameters whose names match a regular expression; null for all.

    Raises:
        ConfigError: it is no regular expression, or it matches no name.
    """
    parameters = {name: p for name, p in named if p.requires_grad}
    try:
        matching = [p for name, p in parameters.items() if re.search(pattern or "", name)]
    except re.error as error:
        raise ConfigError(
            f"learner.compared is {pattern!r}, no regular expression: {error}"
        ) from error
    if not matching:
        raise ConfigError(
            f"learner.compared is {pattern!r}, which is found in the name of no trained "
            f"parameter; those are {', '.join(list(parameters)[:4])}, ...; null compares all"
        )
    return matching


# Keys without a gradient by definition.
_CONSTANT = {"token_weight", "loss_weight"}


def check_gradient(
    losses: nn.ModuleDict, values: Mapping[str, Tensor], views: Mapping[str, TensorDict]
) -> None:
    """Refuse losses whose value has no gradient because a part of them detaches it.

    Args:
        losses: by name.
        values: their values, computed with gradients.
        views: the batch that each loss reads.

    Raises:
        ConfigError: names the part; or the losses, where none of them has a gradient.
    """
    constant = {name: loss for name, loss in losses.items() if not values[name].requires_grad}
    for name, loss in constant.items():
        for message in _detaching_parts(loss, views[name]):
            raise ConfigError(
                f"loss '{name}': {message}, so that nothing is learnt from it: compute it without "
                "detach(), torch.no_grad(), .data, .item() or .numpy()"
            )
    if len(constant) == len(losses):
        raise ConfigError(
            f"loss {', '.join(map(repr, constant))} has no gradient: it depends on nothing that "
            "the model computes; read 'log_probs' (or another output of it) without detach()"
        )


def _detaching_parts(loss: nn.Module, view: TensorDict) -> list[str]:
    """Describe the parts that read a gradient and hand none on, in the order they ran."""
    messages: list[str] = []

    def check(path: str, part: Component, batch: TensorDict, result: TensorDict) -> None:
        reads = [key for key in part.reads if _has_gradient(batch, key)]
        writes = [key for key in part.writes if key not in _CONSTANT]
        if reads and writes and not any(_has_gradient(result, key) for key in writes):
            name = f"{path} ({type(part).__name__})" if path else type(part).__name__
            messages.append(f"{name} writes {writes[0]!r} without the gradient of {reads[0]!r}")

    hooks = [
        part.register_forward_hook(
            lambda part, inputs, result, path=path: check(path, part, inputs[0], result)
        )
        for path, part in loss.named_modules()
        if isinstance(part, Component)
    ]
    try:
        with recording():
            loss(view.copy())
    finally:
        for hook in hooks:
            hook.remove()
    return messages


def _has_gradient(batch: TensorDict, key: str) -> bool:
    value = batch.get(nested(key), None)
    return isinstance(value, Tensor) and value.requires_grad
