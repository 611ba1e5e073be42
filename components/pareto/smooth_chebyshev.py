"""Mostly the objectives that are furthest behind."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.arguments import Fraction, NonNegativeFloat, PositiveFloat
from rlcomp.functional.scalarization import smooth_chebyshev_weights
from rlcomp.pareto.aggregator import Objectives, named_weights
from rlcomp.pareto.expected_returns import ExpectedReturns


class SmoothChebyshev(ExpectedReturns):
    """Minimises ``mu * logsumexp(w_i (z_i - J_i) / mu)``: the weights are ``w * softmax``.

    J and z as in ``chebyshev``: expected returns (SER), and the best of them so far plus ``delta``.
    An objective that no batch has had yet has weight 0.

    Args:
        weights: a factor of each objective's shortfall, by name; null: 1/K each.
        mu: in reward units; towards 0 the worst objective alone, towards infinity fixed weights.
        delta: how far beyond the best so far the utopia point lies, in reward units.
        decay: weight of the past in J.

    Source:
        Lin et al. 2024, arXiv:2402.19078, eq. 8.
    """

    def __init__(
        self,
        *,
        weights: dict[str, float] | None,
        mu: PositiveFloat,
        delta: NonNegativeFloat,
        decay: Fraction,
    ) -> None:
        super().__init__(decay=decay)
        self.weights = weights
        self.mu = mu
        self.delta = delta

    def check(self, names: Sequence[str]) -> None:
        """Refuse weights of others."""
        named_weights("SmoothChebyshev", self.weights, names)

    def weigh(self, objectives: Objectives) -> Tensor:
        """``-dg/dJ`` where the expected returns stand."""
        factors = named_weights("SmoothChebyshev", self.weights, objectives.names)
        returns, best = self.expected(objectives)
        known, weights = ~returns.isnan(), torch.zeros_like(returns)
        if bool(known.any()):
            weights[known] = smooth_chebyshev_weights(
                returns[known], best[known] + self.delta, factors[known], self.mu
            )
        return weights
