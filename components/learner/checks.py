"""Checks of a learner: its losses and their gradients, its batches and sampling settings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from rlcomp.canonical import missing_calls_hint, missing_keys_message
from rlcomp.component import Component
from rlcomp.config.checks.classes import foreign_loss_fault
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.interfaces.loss import Loss, LossPart
from rlcomp.interfaces.policy import Policy
from rlcomp.keys import dotted, nested
from rlcomp.metrics import recording


def check_losses(losses: dict[str, TensorDictModuleBase]) -> None:
    """Refuse modules that are no losses.

    Args:
        losses: modules by name.

    Raises:
        ConfigError: a module is no loss; the message names it and its class.
    """
    for name, loss in losses.items():
        if isinstance(loss, Loss):
            continue
        kinds = [(kind.__module__, kind.__name__) for kind in type(loss).__mro__]
        reason = next(
            (text for kind in kinds if kind[1] != "Module" and (text := foreign_loss_fault(*kind))),
            None,
        )
        # A module of another library is a loss if it lists output keys. Its base class may be any.
        output_keys = list(getattr(loss, "out_keys", ()))
        if reason is None and not any(str(key).startswith("loss") for key in output_keys):
            reason = (
                f"it writes {output_keys or 'no TensorDict'}, but a loss writes at least one "
                "scalar whose name starts with 'loss'; subclass rlcomp.TokenLoss or rlcomp.RowLoss"
            )
        if reason is not None:
            raise ConfigError(f"learner.losses.{name} is a {type(loss).__name__}: {reason}")


def read_keys(losses: dict[str, TensorDictModuleBase]) -> set[str]:
    """Return the keys that the losses and their parts read, with optional keys."""
    keys = {key for loss in losses.values() for key in loss.in_keys}
    for part in (part for loss in losses.values() for part in loss.modules()):
        if isinstance(part, Component):
            keys |= {*part.in_keys, *(part.renames.get(key, key) for key in part.optional)}
    return keys


def check_rows(name: str, batch: TensorDict, losses: Iterable[Loss], written: set[str]) -> None:
    """Refuse a batch that lacks a key of the losses, unless the model or a part writes it.

    Args:
        name: name of the learner, for the message.
        batch: batch of a user's own loop.
        losses: losses of the learner.
        written: keys that the model writes.

    Raises:
        ConfigError: keys are missing; the message names them and the stages that write them.
    """
    parts = [part for loss in losses for part in loss.modules() if isinstance(part, Component)]
    required = dict.fromkeys(dotted(key) for part in parts for key in part.in_keys)
    written_by_parts = {
        dotted(key) for part in parts for key in (*part.out_keys, *part.supplies, *part.may_write)
    }
    written_by_parts |= {
        key for part in parts if isinstance(part, LossPart) for key in part.step_keys
    }
    missing = [key for key in required if key not in {*batch.keys(), *written_by_parts, *written}]
    if missing:
        raise ConfigError(
            f"{missing_keys_message(name, missing, batch.keys())}{missing_calls_hint(missing)}"
        )


def check_micro_batches(
    losses: dict[str, TensorDictModuleBase], micro_batch_tokens: int | None
) -> None:
    """Refuse micro-batches if a loss of another library averages over the rows of a batch.

    Args:
        losses: losses by name.
        micro_batch_tokens: tokens of a micro-batch; None: a batch is not split.

    Raises:
        ConfigError: a loss is no ``Loss``, and ``micro_batch_tokens`` is set.
    """
    foreign = [name for name, loss in losses.items() if not isinstance(loss, Loss)]
    if foreign and micro_batch_tokens is not None:
        raise ConfigError(
            f"learner.micro_batch_tokens is {micro_batch_tokens}, but loss '{foreign[0]}' "
            "is a mean over its rows, so that splitting a batch would change it; set it to null"
        )


def check_sampling(decoding: Decoding, steps: int) -> None:
    """Refuse sampling settings with which a policy update is wrong.

    Args:
        decoding: sampling settings of the policy.
        steps: optimiser steps per batch.

    Raises:
        ConfigError: sampling is truncated and not replayed while there are several steps per batch,
            or the policy is greedy.
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


def check_routes(model: object, batch: TensorDict, loss_keys: Collection[str]) -> None:
    """Refuse a policy update without the expert routes that ``decoding.keep_routing`` requires.

    Losses that do not read ``old_log_probs``, as for demonstrations, need no routes.

    Args:
        model: the trained model.
        batch: batch of the learner.
        loss_keys: keys that the losses read.

    Raises:
        ConfigError: the batch has no ``routed_experts``; the message names the remedy.
    """
    mode = model.decoding.keep_routing if isinstance(model, Policy) else "none"
    if mode == "none" or "old_log_probs" not in loss_keys or "routed_experts" in batch.keys():
        return
    remedies = {
        "proximal": "set old_log_probs=recomputed, which writes them",
        "rollout": "its rows are not the policy's own rollouts; set keep_routing=none",
    }
    raise ConfigError(
        f"decoding.keep_routing is {mode}, but the batch has no routed_experts: {remedies[mode]}"
    )


def objective_losses(losses: dict[str, TensorDictModuleBase]) -> list[str]:
    """Return the names of the losses that read ``advantage``.

    A multi-objective learner evaluates these losses once per objective.

    Args:
        losses: losses by name.

    Raises:
        ConfigError: no loss reads ``advantage``, or a loss is no ``Loss``.
    """
    names = []
    for name, loss in losses.items():
        if not isinstance(loss, Loss):
            raise ConfigError(
                f"learner.losses.{name} is a {type(loss).__name__} and no rlcomp loss: it has no "
                "value for each objective; use learner=gradient"
            )
        parts = [part for part in loss.modules() if isinstance(part, Component)]
        if any("advantage" in part.in_keys for part in parts):
            names.append(name)
    if not names:
        raise ConfigError(
            f"learner.losses ({', '.join(losses)}): none reads 'advantage', so that no loss has "
            "objectives; add a policy loss (losses.policy=${loss}) or use learner=gradient"
        )
    return names


def select_parameters(
    named_parameters: Iterable[tuple[str, Tensor]], pattern: str | None
) -> list[Tensor]:
    """Return the trained parameters whose names a regular expression matches.

    Args:
        named_parameters: names and parameters of the learner.
        pattern: the regular expression, matched anywhere in a name; None: all trained parameters.

    Raises:
        ConfigError: the pattern is no regular expression, or matches no name.
    """
    parameters = {name: p for name, p in named_parameters if p.requires_grad}
    try:
        matching = [p for name, p in parameters.items() if re.search(pattern or "", name)]
    except re.error as error:
        raise ConfigError(
            f"learner.compared is {pattern!r}, no regular expression: {error}"
        ) from error
    if not matching:
        raise ConfigError(
            f"learner.compared is {pattern!r}: it must match the name of a trained parameter, such "
            f"as {', '.join(list(parameters)[:4])}; null compares all parameters"
        )
    return matching


# Keys that have no gradient by definition.
_KEYS_WITHOUT_GRADIENT = {"token_weight", "loss_weight"}


def check_gradient(
    losses: nn.ModuleDict, values: Mapping[str, Tensor], views: Mapping[str, TensorDict]
) -> None:
    """Refuse losses whose value has no gradient.

    A single loss may be constant, but a part of a loss must not detach a gradient, and not all
    losses may be constant.

    Args:
        losses: losses by name.
        values: value of each loss, computed with gradients enabled.
        views: batch that each loss reads.

    Raises:
        ConfigError: a part of a loss detaches the gradient, or no loss has a gradient; the message
            names the part or the losses.
    """
    constant = {name: loss for name, loss in losses.items() if not values[name].requires_grad}
    for name, loss in constant.items():
        for message in _detaching_parts(loss, views[name]):
            raise ConfigError(
                f"loss '{name}': {message}, so that the loss trains nothing: compute it without "
                "detach(), torch.no_grad(), .data, .item() or .numpy()"
            )
    if len(constant) == len(losses):
        raise ConfigError(
            f"loss {', '.join(map(repr, constant))} has no gradient: it depends on no output "
            "of the model; read 'log_probs' or another output of the model, without detach()"
        )


def _detaching_parts(loss: nn.Module, view: TensorDict) -> list[str]:
    """Return a message for each part that reads a gradient and writes none, in forward order."""
    messages: list[str] = []

    def check(path: str, part: Component, batch: TensorDict, result: TensorDict) -> None:
        reads = [key for key in part.reads if _has_gradient(batch, key)]
        writes = [key for key in part.writes if key not in _KEYS_WITHOUT_GRADIENT]
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
