"""A Jacobian stored in blocks, one per parameter: Gram matrix and combinations of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


def row_moments(jacobian: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Compute the Gram matrix of the rows, and their mean entries.

    Args:
        jacobian: one part per parameter, each of shape ``[K, *parameter]``.

    Returns:
        Shapes ``[K, K]`` and ``[K]``, float64, on the CPU. The extra memory is one part
        in float64.

    Source:
        Quinton & Rey 2024, arXiv:2406.16232, section 6 (the Gramian of the Jacobian).

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
    """Compute the weighted sum of the rows of one Jacobian block, in float32 at least.

    Args:
        weights: shape ``[K]``, dimensionless.
        part: shape ``[K, *parameter]``.

    Returns:
        Shape ``[*parameter]``, in the dtype of ``part``.

    Source:
        Quinton & Rey 2024, arXiv:2406.16232, eq. 1.

    Examples:
        >>> combined_row(torch.tensor([2.0, 1.0]), torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
        tensor([2., 3.])
    """
    wide = torch.promote_types(part.dtype, torch.float32)
    combined: Tensor = torch.tensordot(weights.to(part.device, wide), part.to(wide), 1)
    return combined.to(part.dtype)


def reached(output: Tensor, leaves: Iterable[Tensor]) -> set[int]:
    """Return the leaves that an output depends on, from the autograd graph without a backward pass.

    Args:
        output: any shape, with a graph or without.
        leaves: for example parameters.

    Returns:
        The ``id`` of each leaf in the graph of the output.

    Source:
        This project.

    Examples:
        >>> used, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        >>> reached((0 * used).sum(), [used, unused]) == {id(used)}
        True
    """
    nodes: set[torch.autograd.graph.Node] = set()
    todo = [output.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            todo += [before for before, _ in node.next_functions]
    own = {id(getattr(node, "variable", None)) for node in nodes}
    return {id(leaf) for leaf in leaves} & own
