"""Natural gradient: Fisher products, conjugate gradient, backtracking line search (TRPO)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def fisher_product(
    kl: Tensor, parameters: Sequence[Tensor], damping: float
) -> Callable[[Tensor], Tensor]:
    """Return the map ``v -> F v + damping v``; ``F`` is the Hessian of a KL divergence at 0.

    ``F v = d/dtheta (d KL(pi_old || pi_theta)/dtheta . v)``; F is never formed.

    Args:
        kl: mean KL of the policy from its detached self, a scalar with graph.
        parameters: ``theta``.
        damping: added to the diagonal, >= 0.

    Returns:
        A function of flat vectors.

    Source:
        Schulman et al. 2015, arXiv:1502.05477, appendix C.1.
    """
    slope = flat(torch.autograd.grad(kl, parameters, create_graph=True))

    def product(vector: Tensor) -> Tensor:
        moved = torch.autograd.grad((slope * vector).sum(), parameters, retain_graph=True)
        return flat(moved) + damping * vector

    return product


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], target: Tensor, steps: int, tolerance: float = 1e-10
) -> Tensor:
    """Solve ``A x = b`` for a symmetric positive definite ``A``.

    Exact after as many steps as ``A`` has different eigenvalues.

    Args:
        product: ``v -> A v``.
        target: ``b``, flat.
        steps: largest number of steps.
        tolerance: squared norm of the residual below which the iteration ends.

    Source:
        Hestenes and Stiefel 1952.

    Examples:
        >>> matrix = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
        >>> conjugate_gradient(lambda v: matrix @ v, torch.tensor([2.0, 2.0]), steps=2)
        tensor([1.0000, 0.5000])
    """
    solution = torch.zeros_like(target)
    residual, direction = target.clone(), target.clone()
    square = residual.dot(residual)
    for _ in range(steps):
        if float(square) < tolerance:
            break
        image = product(direction)
        length = square / direction.dot(image)
        solution = solution + length * direction
        residual = residual - length * image
        after = residual.dot(residual)
        direction = residual + after / square * direction
        square = after
    return solution


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors into one flat vector."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def assign(parameters: Sequence[Tensor], vector: Tensor) -> None:
    """Write a flat vector into parameters, in place."""
    sizes = [parameter.numel() for parameter in parameters]
    with torch.no_grad():
        for parameter, part in zip(parameters, torch.split(vector, sizes), strict=True):
            parameter.copy_(part.view_as(parameter))
