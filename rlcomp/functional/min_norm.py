"""The minimum-norm convex combination of gradients, and points of the simplex.

``gram`` ``[K, K]`` are the inner products of K gradients. Weights are ``[K]``, float64, on the CPU,
at least 0, and sum to 1. ``objectives`` is K.
"""

from __future__ import annotations

import math
from itertools import combinations

import torch
from torch import Tensor

from rlcomp.errors import ConfigError, require

# Tolerance of a sum of weights from 1: the rounding of float32.
_ROUNDING = 1e-5


def lattice(objectives: int, levels: int) -> Tensor:
    """Return the simplex lattice (Das-Dennis): all compositions of ``levels`` into K parts.

    Shape ``[C(levels + K - 1, K - 1), K]``, int64; each row sums to ``levels``.

    Source: Das and Dennis 1998, doi:10.1137/S1052623496307510, section 3.

    Examples:
        >>> lattice(2, 3).tolist()
        [[3, 0], [2, 1], [1, 2], [0, 3]]
    """
    # Stars and bars: K - 1 bars at any of these places divide ``levels`` stars into K parts.
    places = levels + objectives - 1
    bars = torch.tensor(
        [(-1, *bars, places) for bars in combinations(range(places), objectives - 1)]
    )
    return (bars.diff(dim=1) - 1).flip(0)


def nearest_point(weights: Tensor, levels: int) -> Tensor:
    """Round weights to the nearest point of the simplex lattice (largest-remainder method).

    ``weights`` are ``[..., K]``; the result has their shape, int64, and its rows sum to ``levels``.
    At equal remainders the earlier objective wins. ConfigError if a weight is negative or NaN, or a
    row does not sum to 1.

    Source: Largest-remainder rounding (Hamilton's method); Balinski and Young 1982, Fair
    Representation.

    Examples:
        >>> nearest_point(torch.tensor([0.64, 0.36]), 9).tolist()
        [6, 3]
    """
    exact = weights.double()
    total = exact.sum(-1, keepdim=True)
    sound = (exact >= 0).all(-1) & ((total[..., 0] - 1).abs() <= _ROUNDING)
    if not bool(sound.all()):
        bad = exact.reshape(-1, exact.shape[-1])[~sound.reshape(-1)][0]
        raise ConfigError(
            f"the preference {[round(weight, 4) for weight in bad.tolist()]} is none: weights must "
            "be at least 0 and sum to 1"
        )
    steps = exact / total * levels
    floor = steps.floor()
    missing = levels - floor.sum(-1, keepdim=True)
    # The second argsort turns the order into ranks: 0 is the largest remainder.
    rank = (floor - steps).argsort(stable=True).argsort(-1)
    return (floor + (rank < missing)).long()


def dirichlet(rows: int, objectives: int, alpha: float, generator: torch.Generator) -> Tensor:
    """Draw weights ``[rows, K]`` from the symmetric Dirichlet distribution.

    ``alpha`` 1 is uniform on the simplex, less prefers corners. The weights are computed in
    logarithms: a small ``alpha``, whose gamma variates underflow, then gives corners instead of
    0 / 0. The generator is on the CPU.

    Source: Marsaglia and Tsang 2000, doi:10.1145/358407.358414, section 6: gamma variates of a
    shape below 1 from gamma variates of a shape above 1.
    """
    above = torch.full((rows, objectives), alpha + 1.0, dtype=torch.float64)
    gamma = torch._standard_gamma(above, generator=generator)
    # 1 - u lies in (0, 1], so that its logarithm is finite.
    uniform = 1 - torch.rand(rows, objectives, generator=generator, dtype=torch.float64)
    return (gamma.log() + uniform.log() / alpha).softmax(-1)


# A vector sum shorter than this share of the summed lengths of its terms is a rounding error of 0.
_CANCELLED = 1e-6


def cosines(gram: Tensor, weights: Tensor) -> Tensor:
    """Compute the cosine similarity ``[K]`` of ``sum_j w_j g_j`` with each vector ``g_i``.

    ``weights`` ``w`` may be negative here; the result is float64, and 0 for a zero vector. Where
    the terms cancel (the sum is shorter than 1e-6 of their summed lengths), the divisor is this
    bound instead of the sum's norm, so that rounding noise has a cosine near 0.

    Examples:
        >>> cosines(torch.tensor([[1.0, 0.0], [0.0, 4.0]]), torch.tensor([3.0, -2.0])).tolist()
        [0.6, -0.8]
    """
    gram, weights = gram.detach().cpu().double(), weights.detach().cpu().double()
    lengths, along = gram.diagonal().clamp(min=0).sqrt(), gram @ weights
    length = (weights @ along).clamp(min=0).sqrt()
    divisor = lengths * torch.maximum(length, _CANCELLED * (weights.abs() @ lengths))
    return torch.where(divisor > 0, along / divisor, torch.zeros_like(along)).clamp(-1, 1)


# Largest number of vectors with a search over supports (2^8 - 1 small systems); a QP is faster
# above.
MAX_SUPPORT_SEARCH = 8
# Tolerance of a weight below 0, and of an optimality condition relative to its terms.
_SLACK = 1e-9


def min_norm(gram: Tensor) -> Tensor:
    """Compute MGDA's weights, ``w = argmin_c |sum_i c_i g_i|^2`` over the simplex, exactly.

    Two vectors: the closed form, 1/2 each if they are equal. Up to 8: a search over all supports,
    small ones first, so that duplicates do not share a weight that one of them can carry alone.
    More: a quadratic programme (quadprog; MissingExtra without it). If all vectors are 0, each
    weight is 1/K. The weights may not be unique; the combined vector is.

    Source: Désidéri 2012 (MGDA); Sener & Koltun 2018, arXiv:1810.04650, eq. 3 and algorithm 1.

    Examples:
        >>> min_norm(torch.tensor([[1.0, -0.5], [-0.5, 1.25]])) * 13
        tensor([7., 6.], dtype=torch.float64)
    """
    gram = gram.detach().cpu().double()
    scale = float(gram.diagonal().max())
    if len(gram) == 1 or scale == 0:
        return gram.new_full((len(gram),), 1 / len(gram))
    gram = gram / scale
    if len(gram) == 2:
        return _two_vectors(gram)
    return _support_search(gram) if len(gram) <= MAX_SUPPORT_SEARCH else _quadratic_program(gram)


def stationarity_gap(gram: Tensor) -> float:
    """Compute the Pareto-stationarity gap, ``min_c |sum_i c_i g_i| / max_i |g_i|`` on the simplex.

    0 if no direction improves all objectives (Pareto-stationary), and if all vectors are 0.

    Source: Désidéri 2012 (the norm); the division makes it free of scale (this project).

    Examples:
        >>> stationarity_gap(torch.tensor([[1.0, -1.0], [-1.0, 1.0]]))
        0.0
        >>> stationarity_gap(torch.eye(2)) ** 2
        0.5000000000000001
    """
    gram = gram.detach().cpu().double()
    longest = float(gram.diagonal().max())
    if longest == 0:
        return 0.0
    weights = min_norm(gram)
    square = float(weights @ gram @ weights) / longest
    return math.sqrt(min(max(square, 0.0), 1.0))


def _two_vectors(gram: Tensor) -> Tensor:
    apart = gram[0, 0] + gram[1, 1] - 2 * gram[0, 1]
    if float(apart) <= 0:
        return gram.new_full((2,), 0.5)
    first = ((gram[1, 1] - gram[0, 1]) / apart).clamp(0, 1)
    return torch.stack([first, 1 - first])


def _support_search(gram: Tensor) -> Tensor:
    """Return the first feasible solution that is optimal, or else the shortest feasible one."""
    best, shortest = gram.new_zeros(len(gram)), float("inf")
    for size in range(1, len(gram) + 1):
        for support in combinations(range(len(gram)), size):
            weights = _on_support(gram, list(support))
            if weights is None:
                continue
            along, terms = gram @ weights, gram.abs() @ weights
            square = weights @ along
            # Optimal if no gradient's inner product with the combination is below its squared norm.
            if bool((along >= square - _SLACK * (terms + weights @ terms)).all()):
                return weights
            if float(square) < shortest:
                best, shortest = weights, float(square)
    return best


def _on_support(gram: Tensor, support: list[int]) -> Tensor | None:
    """Solve ``M_S c = lambda 1``, ``sum c = 1`` for the rows and columns ``S`` of the Gram matrix.

    Return the weights ``[K]``, 0 outside the support; None if a weight is negative or there is no
    solution.
    """
    size = len(support)
    part = gram[support][:, support]
    system = gram.new_ones(size + 1, size + 1)
    # Scaled by its own maximum, so that short vectors are not lost in the rounding of long ones.
    system[:size, :size] = part / part.diagonal().max().clamp(min=torch.finfo(part.dtype).tiny)
    system[size, size] = 0
    target = gram.new_zeros(size + 1)
    target[size] = 1
    solution = (torch.linalg.pinv(system, hermitian=True) @ target)[:size]
    if float(solution.min()) < -_SLACK or abs(float(solution.sum()) - 1) > _SLACK:
        return None
    weights = gram.new_zeros(len(gram))
    weights[support] = solution.clamp(min=0) / solution.clamp(min=0).sum()
    return weights


def _quadratic_program(gram: Tensor) -> Tensor:
    quadprog = require("quadprog", "pareto")
    size = len(gram)
    # The solver needs strict convexity: 1e-12 of the trace moves the norm by less than 1e-11.
    convex = gram + 1e-12 * gram.trace() * torch.eye(size, dtype=gram.dtype)
    # The first constraint is an equation, sum_i w_i = 1; the others are w_i >= 0.
    constraints = torch.cat([gram.new_ones(size, 1), torch.eye(size, dtype=gram.dtype)], 1)
    bounds = torch.cat([gram.new_ones(1), gram.new_zeros(size)])
    zeros = gram.new_zeros(size)
    solution = quadprog.solve_qp(
        convex.numpy(), zeros.numpy(), constraints.numpy(), bounds.numpy(), meq=1
    )[0]
    weights = torch.from_numpy(solution).clamp(min=0)
    return weights / weights.sum()
