"""Optimiser with one group of parameters for each network, selected by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.errors import ConfigError


def optimizer_groups(
    named: Iterable[tuple[str, Tensor]],
    *,
    optimizer: Callable[..., torch.optim.Optimizer],
    lr: Mapping[str, PositiveFloat],
) -> torch.optim.Optimizer:
    """Create an optimiser whose groups are networks, each with its own learning rate.

    An optimiser that treats every parameter by itself (SGD, Adam) then does the same as one
    optimiser per network: a network without a gradient in a step is not changed.

    Args:
        named: the trained parameters with their names.
        optimizer: called with the groups, e.g. a partial of ``torch.optim.Adam``.
        lr: learning rate by the beginning of a name, at any level of it: ``actor_network`` is the
            group of ``losses.control.objective.actor_network_params.module.0.weight``.

    Raises:
        ConfigError: a beginning matches no parameter, or a parameter matches none or several.
    """
    groups: dict[str, list[tuple[str, Tensor]]] = {prefix: [] for prefix in lr}
    for name, parameter in named:
        fitting = [prefix for prefix in lr if f".{prefix}" in f".{name}"]
        if len(fitting) != 1:
            names = " and ".join(map(repr, fitting)) or "none"
            raise ConfigError(
                f"the parameter '{name}' belongs to {names} of the groups {list(lr)}: every "
                "parameter has one learning rate; name its network, set +learner.optimizer.lr.NAME"
            )
        groups[fitting[0]].append((name, parameter))
    empty = [prefix for prefix, members in groups.items() if not members]
    if empty:
        raise ConfigError(
            f"learner.optimizer.lr.{empty[0]}: no trained parameter has such a name: delete it, "
            f"'~learner.optimizer.lr.{empty[0]}'"
        )
    return optimizer([{"params": members, "lr": lr[prefix]} for prefix, members in groups.items()])
