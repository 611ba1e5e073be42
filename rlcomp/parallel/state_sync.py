"""State sync of a learner: small state is sent to ranks before a step, and summed behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from rlcomp.checkpoint.state import HasRunState

State = list[dict[str, Any]]
_PLAIN = (int, float, bool, str, frozenset, type(None))


def modules_of(node: nn.Module, models: Iterable[nn.Module]) -> list[nn.Module]:
    """Return a node's modules that belong to none of the models."""
    left_out = {id(module) for model in models for module in model.modules()}
    return [module for module in node.modules() if id(module) not in left_out]


def small_state(node: nn.Module, models: Iterable[nn.Module]) -> State:
    """Return buffers, plain attributes, generators and run states of a node's modules.

    Args:
        node: its own run state is left out, because it holds moments.
        models: their weights are sent separately.
    """
    states = []
    for module in modules_of(node, models):
        attributes = vars(module)
        stateful = module is not node and isinstance(module, HasRunState)
        states.append(
            {
                "buffers": [buffer.cpu() for buffer in module.buffers(recurse=False)],
                "plain": {k: v for k, v in attributes.items() if type(v) in _PLAIN},
                "streams": {
                    k: v.get_state()
                    for k, v in attributes.items()
                    if isinstance(v, torch.Generator)
                },
                "run_state": module.run_state() if stateful else None,  # type: ignore[operator]
            }
        )
    return states


@torch.no_grad()
def take_state(node: nn.Module, models: Iterable[nn.Module], state: State) -> None:
    """Set a node's modules to the small state of another rank."""
    for module, values in zip(modules_of(node, models), state, strict=True):
        for buffer, value in zip(module.buffers(recurse=False), values["buffers"], strict=True):
            buffer.copy_(value)
        vars(module).update(values["plain"])
        for name, stream in values["streams"].items():
            vars(module)[name].set_state(stream)
        if values["run_state"] is not None:
            module.load_run_state(values["run_state"])  # type: ignore[operator]


def sums(parts: Iterable[nn.Module]) -> list[float]:
    """Return the numbers that passes may add up: plain attributes, and buffers of one number."""
    return [value for _, _, value in _numbers(parts)]


def add_sums(parts: Iterable[nn.Module], before: list[float], others: list[float]) -> None:
    """Add the sums of all ranks' passes to the numbers of :func:`sums`.

    Args:
        parts: as for :func:`sums`.
        before: the numbers before the passes.
        others: the amounts that all ranks together have added (:func:`added`).
    """
    for (module, name, now), old, more in zip(_numbers(parts), before, others, strict=True):
        if more == 0:
            continue
        new = old + more
        buffer = module._buffers.get(name)
        if buffer is not None:
            buffer.fill_(new)
        else:
            vars(module)[name] = int(new) if isinstance(now, int) else new


def added(parts: Iterable[nn.Module], before: list[float]) -> list[float]:
    """Return the amounts that this rank's passes have added to the numbers of :func:`sums`."""
    return [
        0.0 if now == old or (math.isnan(now) and math.isnan(old)) else now - old
        for now, old in zip(sums(parts), before, strict=True)
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
