"""Memory layout (strides) of parameters and gradients, as fused optimisers take it for granted."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rlcomp.errors import ConfigError


def check_dense(optimizer: torch.optim.Optimizer) -> None:
    """Refuse a fused optimiser for a parameter whose numbers do not fill a stretch of memory.

    On a CPU torch's fused optimisers walk parameter, gradient and moments as flat memory, without a
    look at their strides.

    Raises:
        ConfigError: names the shape and strides.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"] if group.get("fused") else ():
            if torch.empty_like(parameter, device="meta").stride() != parameter.stride():
                raise ConfigError(
                    f"a trained parameter of shape {list(parameter.shape)} is a view with strides "
                    f"{list(parameter.stride())}, which a fused optimiser cannot walk: set "
                    "learner.optimizer.fused=false, or train a contiguous copy"
                )


def match_strides(parameters: Iterable[Tensor]) -> None:
    """Lay out gradients as their parameters, where something other than autograd has set them.

    Args:
        parameters: their ``.grad`` is replaced where its strides differ.

    Examples:
        >>> weight = torch.nn.Parameter(torch.zeros(2, 3))
        >>> weight.grad = torch.ones(3, 2).t()
        >>> match_strides([weight])
        >>> weight.grad.stride()
        (3, 1)
    """
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is not None and gradient.stride() != parameter.stride():
            parameter.grad = torch.empty_like(parameter).copy_(gradient)
