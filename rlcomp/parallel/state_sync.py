"""State sync of a learner: small state goes from rank 0 to all ranks, sums of all are added up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from rlcomp.checkpoint.state import HasRunState

State = list[dict[str, Any]]
# Types of the attributes that are sent.
_PLAIN = (int, float, bool, str, frozenset, type(None))


def modules_of(node: nn.Module, models: Iterable[nn.Module]) -> list[nn.Module]:
    """Return a node's modules that belong to none of the models."""
    excluded = {id(module) for model in models for module in model.modules()}
    return [module for module in node.modules() if id(module) not in excluded]


def small_state(node: nn.Module, models: Iterable[nn.Module]) -> State:
    """Return the state of each of a node's modules, other than parameters.

    Args:
        node: a learner; its run state, the moments, is left out.
        models: models whose modules are left out: their weights are sent separately.

    Returns:
        For each module ``buffers``, ``plain`` (attributes of plain types), ``generators``, and
        ``run_state`` (None without one).
    """
    states = []
    for module in modules_of(node, models):
        attributes = vars(module)
        stateful = module is not node and isinstance(module, HasRunState)
        states.append(
            {
                "buffers": [buffer.cpu() for buffer in module.buffers(recurse=False)],
                "plain": {k: v for k, v in attributes.items() if type(v) in _PLAIN},
                "generators": {
                    k: v.get_state()
                    for k, v in attributes.items()
                    if isinstance(v, torch.Generator)
                },
                "run_state": module.run_state() if stateful else None,  # type: ignore[operator]
            }
        )
    return states


@torch.no_grad()
def load_small_state(node: nn.Module, models: Iterable[nn.Module], state: State) -> None:
    """Set a node's modules to the small state of another rank."""
    for module, values in zip(modules_of(node, models), state, strict=True):
        for buffer, value in zip(module.buffers(recurse=False), values["buffers"], strict=True):
            buffer.copy_(value)
        vars(module).update(values["plain"])
        for name, generator in values["generators"].items():
            vars(module)[name].set_state(generator)
        if values["run_state"] is not None:
            module.load_run_state(values["run_state"])  # type: ignore[operator]


def running_sums(parts: Iterable[nn.Module]) -> list[float]:
    """Return the numbers that passes may add to.

    These are attributes of type int or float, and buffers of one number.
    """
    return [value for _, _, value in _numbers(parts)]


def add_sums(parts: Iterable[nn.Module], before: list[float], changes: list[float]) -> None:
    """Add the changes of all ranks to the numbers of :func:`running_sums` before the passes.

    Args:
        parts: the modules with the numbers.
        before: the numbers before the passes.
        changes: result of :func:`sum_changes`, summed over ranks.
    """
    for (module, name, now), old, change in zip(_numbers(parts), before, changes, strict=True):
        if change == 0:
            continue
        new = old + change
        buffer = module._buffers.get(name)
        if buffer is not None:
            buffer.fill_(new)
        else:
            vars(module)[name] = int(new) if isinstance(now, int) else new


def sum_changes(parts: Iterable[nn.Module], before: list[float]) -> list[float]:
    """Return the changes of :func:`running_sums` by this rank's passes."""
    return [
        0.0 if now == old or (math.isnan(now) and math.isnan(old)) else now - old
        for now, old in zip(running_sums(parts), before, strict=True)
    ]


def _numbers(parts: Iterable[nn.Module]) -> Iterator[tuple[nn.Module, str, float]]:
    for part in parts:
        for module in part.modules():
            for name, value in vars(module).items():
                if type(value) in (int, float):
                    yield module, name, value
            for name, buffer in module.named_buffers(recurse=False):
                if isinstance(buffer, Tensor) and buffer.numel() == 1:
                    yield module, name, buffer.item()
