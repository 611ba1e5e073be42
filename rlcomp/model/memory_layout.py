"""Memory layout (strides) of parameters and gradients, as fused optimisers require it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rlcomp.errors import ConfigError


def check_dense(optimizer: torch.optim.Optimizer) -> None:
    """Check that the numbers of each parameter of a fused optimiser are dense in memory.

    On a CPU torch's fused optimisers read parameter, gradient and moments as flat memory, without
    regard to their strides.

    Raises:
        ConfigError: they are not; names the shape and strides.
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
    """Give gradients the strides of their parameters, if not autograd has set them.

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
