"""Simplex-lattice weights of several objectives, and Dirichlet draws."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from rlcomp.errors import ConfigError

# Tolerance of a sum of weights from 1: the rounding of float32.
_ROUNDING = 1e-5


def lattice(objectives: int, levels: int) -> Tensor:
    """Return the simplex lattice (Das-Dennis): all compositions of ``levels`` into K parts.

    Args:
        objectives: ``K``, at least 1.
        levels: ``n``, units to distribute in each point; at least 1.

    Returns:
        Shape ``[C(n + K - 1, K - 1), K]``, int64; each row sums to ``n``.

    Source:
        Das and Dennis 1998, doi:10.1137/S1052623496307510, section 3.

    Examples:
        >>> lattice(2, 3).tolist()
        [[3, 0], [2, 1], [1, 2], [0, 3]]
    """
    places = levels + objectives - 1
    bars = torch.tensor(
        [(-1, *bars, places) for bars in combinations(range(places), objectives - 1)]
    )
    return (bars.diff(dim=1) - 1).flip(0)


def nearest_point(weights: Tensor, levels: int) -> Tensor:
    """Round weights to the simplex lattice (largest-remainder method).

    Args:
        weights: shape ``[..., K]``, at least 0, each row of sum 1.
        levels: ``n``, units to distribute in each row.

    Returns:
        Shape ``[..., K]``, int64, each row of sum ``n``: the nearest lattice point in Euclidean
        distance. At equal remainders the earlier objective wins.

    Raises:
        ConfigError: a weight is negative or NaN, or a row does not sum to 1.

    Source:
        Largest-remainder rounding (Hamilton's method); Balinski and Young 1982, Fair
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
    left = levels - floor.sum(-1, keepdim=True)
    rank = (floor - steps).argsort(stable=True).argsort(-1)
    return (floor + (rank < left)).long()


def dirichlet(rows: int, objectives: int, alpha: float, generator: torch.Generator) -> Tensor:
    """Draw weights from the symmetric Dirichlet distribution.

    Computed in logarithms, so that a small ``alpha``, whose gamma variates underflow, gives
    corners.

    Args:
        rows: ``P``, number of draws.
        objectives: ``K``.
        alpha: concentration; 1 is uniform on the simplex, less prefers corners; above 0.
        generator: on the CPU.

    Returns:
        Shape ``[P, K]``, float64; each row sums to 1.

    Source:
        Marsaglia and Tsang 2000, doi:10.1145/358407.358414, section 6: gamma variates of a shape
        below 1 from those above 1.
    """
    above = torch.full((rows, objectives), alpha + 1.0, dtype=torch.float64)
    gamma = torch._standard_gamma(above, generator=generator)
    # 1 - u lies in (0, 1], so that its logarithm is finite.
    uniform = 1 - torch.rand(rows, objectives, generator=generator, dtype=torch.float64)
    return (gamma.log() + uniform.log() / alpha).softmax(-1)
