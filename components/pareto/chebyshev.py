"""Weighted Chebyshev scalarisation of the expected returns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.arguments import Fraction, NonNegativeFloat
from rlcomp.functional.scalarization import chebyshev_weights
from rlcomp.pareto.aggregator import Objectives, named_weights
from rlcomp.pareto.expected_returns import ExpectedReturns


class Chebyshev(ExpectedReturns):
    """(Augmented) weighted Chebyshev scalarisation.

    ``min max_i w_i (z_i - J_i) + rho * sum_i w_i (z_i - J_i)``.

    The expected returns J are running means over batches (SER). The aggregation weights are
    ``-dg/dJ`` at J. The utopia point z is the highest J so far plus ``delta``. Returns are in
    reward units. An objective without data yet has weight 0.

    Args:
        weights: factor of each objective's shortfall, by name; null: 1/K each.
        rho: weight of the sum (augmented); with 0, only the worst objective has an effect.
        delta: distance of the utopia point from the best J so far, in reward units.
        decay: decay of the running means J.

    Source:
        Steuer & Choo 1983; for several rewards Van Moffaert et al. 2013.
    """

    def __init__(
        self,
        *,
        weights: dict[str, float] | None = None,
        rho: NonNegativeFloat = 0.0,
        delta: NonNegativeFloat = 0.1,
        decay: Fraction = 0.9,
    ) -> None:
        super().__init__(decay=decay)
        self.weights = weights
        self.rho = rho
        self.delta = delta

    def check(self, names: Sequence[str]) -> None:
        """Refuse weights of unknown objectives."""
        named_weights("Chebyshev", self.weights, names)

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return ``-dg/dJ`` at the current expected returns."""
        factors = named_weights("Chebyshev", self.weights, objectives.names)
        returns, best = self.expected(objectives)
        known, weights = ~returns.isnan(), torch.zeros_like(returns)
        if bool(known.any()):
            weights[known] = chebyshev_weights(
                returns[known], best[known] + self.delta, factors[known], self.rho
            )
        return weights
