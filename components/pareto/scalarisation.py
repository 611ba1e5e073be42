"""Aggregators by given weights, and by scalarisation of expected returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rlcomp.arguments import Fraction, NonNegativeFloat, PositiveFloat
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.functional.scalarization import chebyshev_weights, smooth_chebyshev_weights
from rlcomp.pareto.aggregator import (
    Aggregator,
    ExpectedReturnsAggregator,
    Objectives,
    check_names,
    named_weights,
)
from rlcomp.seed import new_generator


class LinearScalarisation(Aggregator):
    """Linear scalarisation: fixed weights.

    ``sum_k w_k x_k`` with ``x_k`` the rewards, advantages or gradients. With
    ``advantage=per_objective`` an ``x_k`` is in units of the running std of its rewards
    (``scale: none`` for reward units).

    Args:
        weights: weight of every objective, by name; they need not sum to 1. null: 1/K each.

    Raises:
        ConfigError: ``weights`` is empty, or (in :meth:`check` and :meth:`weigh`) names other
            objectives.

    Source:
        Roijers et al. 2013, arXiv:1402.0590, section 4.2 (linear scalarisation).
    """

    def __init__(self, *, weights: dict[str, float] | None = None) -> None:
        super().__init__()
        if weights is not None and not weights:
            raise ConfigError(
                "LinearScalarisation: weights is empty: name each objective, or set it to null"
            )
        self.weights = None if weights is None else dict(weights)

    def check(self, names: Sequence[str]) -> None:
        """Refuse weights of unknown objectives."""
        named_weights("LinearScalarisation", self.weights, names)

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weights, in the order of the objectives."""
        return named_weights("LinearScalarisation", self.weights, objectives.names)


class PreferenceWeights(Aggregator):
    """Weights equal to each row's preference, on which the policy was conditioned.

    Raises:
        ConfigError: (in :meth:`weigh`) there are no preferences, or a preference does not have one
            weight per objective.
    """

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weight of each objective in each row, shape ``[B, K]``."""
        if objectives.preference is None:
            raise ConfigError(
                "aggregator: no stage draws preferences: use conditioning=text_prefix, or another "
                "aggregator"
            )
        count = objectives.preference.shape[1]
        if count != len(objectives.names):
            raise ConfigError(
                f"aggregator: a preference has {count} weights, but there are "
                f"{len(objectives.names)} objectives ({', '.join(objectives.names)}): set "
                "conditioning.objectives to the stage that writes them"
            )
        return objectives.preference.double()


class RandomWeights(Aggregator):
    """Random loss weighting (RLW), a baseline for other aggregators.

    ``w = softmax(z)`` with ``z ~ N(0, I)``, drawn at every step.

    Source:
        Lin et al. 2022, arXiv:2111.10603, algorithm 2 (random loss weighting).
    """

    def __init__(self) -> None:
        super().__init__()
        self.generator = new_generator()

    def weigh(self, objectives: Objectives) -> Tensor:
        """Draw new weights, at least 0, with sum 1."""
        count = len(objectives.names)
        return torch.softmax(
            torch.randn(count, generator=self.generator, dtype=torch.float64), dim=0
        )


class ScaledObjectives(Aggregator):
    """Another aggregator applied to scaled objectives.

    ``w_k = s_k v_k`` with ``v`` the weights of the aggregator for the vectors ``s_k g_k``, as if
    the rewards were multiplied by ``s``. Methods without weights of their own (MGDA, PAMA) depend
    on the objectives' units, so ``s`` is a preference for them. Recorded returns keep their units.

    Args:
        aggregator: computes ``v``; choose it by ``pareto@learner.aggregator.aggregator=mgda``.
        scales: ``s_k``, a factor for each objective by name.

    Raises:
        ConfigError: ``scales`` lacks an objective or names an unknown one, or the aggregator weighs
            by expected returns.
    """

    def __init__(self, *, aggregator: Aggregator, scales: dict[str, PositiveFloat]) -> None:
        super().__init__()
        if aggregator.reward_units:
            raise ConfigError(
                f"ScaledObjectives: aggregator is {type(aggregator).__name__}, which weighs by the "
                "expected returns: use its own weights instead of scales"
            )
        self.aggregator = aggregator
        self.scales = scales

    def check(self, names: Sequence[str]) -> None:
        """Refuse unknown objectives, and objectives without a factor."""
        check_names("ScaledObjectives", "scales", self.scales, names)
        self.aggregator.check(names)

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weights of the unscaled objectives, shape ``[K]`` or ``[B, K]``."""
        check_names("ScaledObjectives", "scales", self.scales, objectives.names)
        scales = torch.tensor([self.scales[name] for name in objectives.names], dtype=torch.float64)
        scaled = replace(
            objectives,
            means=objectives.means * scales,
            gram=objectives.gram * scales.outer(scales),
        )
        return self.aggregator.weigh(scaled) * scales


class ExpectedUtility(ExpectedReturnsAggregator):
    """Utility of the expected returns (SER).

    ``max g(J_1, ..., J_K)`` with weights ``w_k = dg/dJ_k``.

    ``J`` are running means over batches. Until every objective has data, the weights are 1/K. A
    non-linear ``g`` of the rewards of each response is a different problem (ESR).

    Args:
        function: g; takes ``J`` as a tensor ``[K]`` in the order of the objectives and returns a
            scalar tensor.
        decay: decay of the running means J.

    Raises:
        ConfigError: g does not return a single number that depends on J.
        NumericalError: dg/dJ is not finite.

    Source:
        Roijers et al. 2013, arXiv:1402.0590, section 3.2 (SER and ESR).
    """

    def __init__(self, *, function: Callable[[Tensor], Tensor], decay: Fraction = 0.9) -> None:
        super().__init__(decay=decay)
        self.function = function

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return ``dg/dJ`` at the current expected returns."""
        returns, _ = self.update_returns(objectives)
        if bool(returns.isnan().any()):
            return torch.full_like(returns, 1 / len(returns))
        with torch.enable_grad():
            returns.requires_grad_()
            value = self.function(returns)
            if value.ndim or not value.requires_grad:
                raise ConfigError(
                    f"ExpectedUtility: function gives {value!r}: it must be one number that "
                    "depends on the expected returns"
                )
            (gradient,) = torch.autograd.grad(value, returns)
        if not bool(gradient.isfinite().all()):
            point = dict(zip(objectives.names, returns.tolist(), strict=True))
            raise NumericalError(
                f"ExpectedUtility: the gradient of function is not finite at {point}"
            )
        return gradient


class Chebyshev(ExpectedReturnsAggregator):
    """Weighted Chebyshev scalarisation; augmented if ``rho`` is above 0.

    ``min g(J) = max_i w_i (z_i - J_i) + rho * sum_i w_i (z_i - J_i)``.

    The expected returns J are running means over batches (SER). The aggregation weights are
    ``-dg/dJ`` at J. The utopia point z is the highest J so far plus ``delta``. Returns are in
    reward units. An objective without data has weight 0.

    Args:
        weights: factor of each objective's shortfall, by name; null: 1/K each.
        rho: weight of the sum; 0: only the worst objective has a weight.
        delta: distance of the utopia point from the best J so far, in reward units.
        decay: decay of the running means J.

    Raises:
        ConfigError: (in :meth:`check` and :meth:`weigh`) ``weights`` lacks an objective or names an
            unknown one.

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
        returns, best = self.update_returns(objectives)
        valid, weights = ~returns.isnan(), torch.zeros_like(returns)
        if bool(valid.any()):
            weights[valid] = chebyshev_weights(
                returns[valid], best[valid] + self.delta, factors[valid], self.rho
            )
        return weights


class SmoothChebyshev(ExpectedReturnsAggregator):
    """Smooth Chebyshev scalarisation.

    ``min g(J) = mu * logsumexp_i(w_i (z_i - J_i) / mu)``: aggregation weights
    ``-dg/dJ = w * softmax(w (z - J) / mu)``.

    J and z are as in ``chebyshev``: expected returns (SER), and the best J so far plus ``delta``.
    An objective without data has weight 0.

    Args:
        weights: factor of each objective's shortfall, by name; null: 1/K each.
        mu: smoothing, in reward units; towards 0 only the worst objective counts, towards infinity
            the weights are fixed.
        delta: distance of the utopia point from the best J so far, in reward units.
        decay: decay of the running means J.

    Raises:
        ConfigError: (in :meth:`check` and :meth:`weigh`) ``weights`` lacks an objective or names an
            unknown one.

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
        returns, best = self.update_returns(objectives)
        valid, weights = ~returns.isnan(), torch.zeros_like(returns)
        if bool(valid.any()):
            weights[valid] = smooth_chebyshev_weights(
                returns[valid], best[valid] + self.delta, factors[valid], self.mu
            )
        return weights
