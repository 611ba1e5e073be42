"""Gradients of several objectives, and the natural gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor


def row_moments(jacobian: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Compute the Gram matrix ``[K, K]`` of a Jacobian's rows, and their mean entries ``[K]``.

    The Jacobian has one part per parameter, ``[K, *parameter]``. Float64, on the CPU; the extra
    memory is one part in float64.

    Source: Quinton & Rey 2024, arXiv:2406.16232, section 6 (the Gramian of the Jacobian).

    Examples:
        >>> gram, means = row_moments([torch.tensor([[3.0], [0.0]]), torch.tensor([[4.0], [2.0]])])
        >>> gram.tolist(), means.tolist()
        ([[25.0, 8.0], [8.0, 4.0]], [3.5, 1.0])
    """
    number = len(jacobian[0])
    gram = torch.zeros(number, number, dtype=torch.float64)
    total = torch.zeros(number, dtype=torch.float64)
    for part in jacobian:
        rows = part.detach().flatten(1).double()
        gram += (rows @ rows.T).cpu()
        total += rows.sum(1).cpu()
    return gram, total / sum(part[0].numel() for part in jacobian)


def combined_row(weights: Tensor, part: Tensor) -> Tensor:
    """Compute the weighted sum of the rows of one Jacobian block ``[K, *parameter]``.

    ``weights`` are ``[K]``, the result is ``[*parameter]``. The sum is in float32 at least; the
    result has the dtype of ``part``.

    Source: Quinton & Rey 2024, arXiv:2406.16232, eq. 1.

    Examples:
        >>> combined_row(torch.tensor([2.0, 1.0]), torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
        tensor([2., 3.])
    """
    wide = torch.promote_types(part.dtype, torch.float32)
    combined: Tensor = torch.tensordot(weights.to(part.device, wide), part.to(wide), 1)
    return combined.to(part.dtype)


def reachable_leaves(output: Tensor, leaves: Iterable[Tensor]) -> set[int]:
    """Return the ``id`` of each leaf that an output depends on, without a backward pass.

    Examples:
        >>> used, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        >>> reachable_leaves((0 * used).sum(), [used, unused]) == {id(used)}
        True
    """
    nodes: set[torch.autograd.graph.Node] = set()
    todo = [output.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            todo += [before for before, _ in node.next_functions]
    # The node that accumulates a leaf's gradient holds the leaf as ``variable``.
    reached = {id(getattr(node, "variable", None)) for node in nodes}
    return {id(leaf) for leaf in leaves} & reached


def fisher_product(
    kl: Tensor, parameters: Sequence[Tensor], damping: float
) -> Callable[[Tensor], Tensor]:
    """Return the map ``v -> F v + damping v``; ``F`` is the Fisher matrix of the policy.

    ``F v = d/dtheta (d KL(pi_old || pi_theta)/dtheta . v)`` at ``theta = theta_old``, where the
    Hessian of the KL is the Fisher matrix. ``v`` is flat, with an entry for each entry of the
    ``parameters``; F is never formed. ``kl`` is the mean KL of the policy from its detached self, a
    scalar with graph.

    Source: Schulman et al. 2015, arXiv:1502.05477, appendix C.1.
    """
    gradient = flat(torch.autograd.grad(kl, parameters, create_graph=True))

    def product(vector: Tensor) -> Tensor:
        hessian_product = torch.autograd.grad(
            (gradient * vector).sum(), parameters, retain_graph=True
        )
        return flat(hessian_product) + damping * vector

    return product


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], target: Tensor, steps: int, tolerance: float = 1e-10
) -> Tensor:
    """Solve ``A x = b`` for a symmetric positive definite ``A``, with the product ``v -> A v``.

    ``target`` ``b`` and the result are ``[N]``. The result is exact after as many steps as ``A``
    has different eigenvalues. ``tolerance`` is the squared norm
    of the residual below which the iteration ends.

    Source: Hestenes and Stiefel 1952.

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
