"""Smooth Chebyshev scalarisation of the expected returns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.arguments import Fraction, NonNegativeFloat, PositiveFloat
from rlcomp.functional.scalarization import smooth_chebyshev_weights
from rlcomp.pareto.aggregator import Objectives, named_weights
from rlcomp.pareto.expected_returns import ExpectedReturns


class SmoothChebyshev(ExpectedReturns):
    """Smooth Chebyshev scalarisation.

    ``min mu * logsumexp_i(w_i (z_i - J_i) / mu)``: aggregation weights
    ``w * softmax(w (z - J) / mu)``.

    J and z are as in ``chebyshev``: expected returns (SER), and the best J so far plus ``delta``.
    An objective without data yet has weight 0.

    Args:
        weights: factor of each objective's shortfall, by name; null: 1/K each.
        mu: smoothing, in reward units; towards 0 only the worst objective counts, towards infinity
            the weights are fixed.
        delta: distance of the utopia point from the best J so far, in reward units.
        decay: decay of the running means J.

    Source:
        Lin et al. 2024, arXiv:2402.19078, eq. 8.
    """

    def __init__(
        self,
        *,
        weights: dict[str, float] | None = None,
        mu: PositiveFloat = 0.1,
        delta: NonNegativeFloat = 0.1,
        decay: Fraction = 0.9,
    ) -> None:
        super().__init__(decay=decay)
        self.weights = weights
        self.mu = mu
        self.delta = delta

    def check(self, names: Sequence[str]) -> None:
        """Refuse weights of unknown objectives."""
        named_weights("SmoothChebyshev", self.weights, names)

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return ``-dg/dJ`` at the current expected returns."""
        factors = named_weights("SmoothChebyshev", self.weights, objectives.names)
        returns, best = self.expected(objectives)
        known, weights = ~returns.isnan(), torch.zeros_like(returns)
        if bool(known.any()):
            weights[known] = smooth_chebyshev_weights(
                returns[known], best[known] + self.delta, factors[known], self.mu
            )
        return weights
