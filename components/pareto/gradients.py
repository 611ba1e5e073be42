"""Aggregators on gradient (or advantage) vectors, and Lagrange multipliers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.errors import ConfigError, MissingExtra, NumericalError, require
from rlcomp.functional.min_norm import min_norm
from rlcomp.functional.scalarization import dual_ascent, scalar_weights
from rlcomp.pareto.aggregator import (
    Aggregator,
    GramianAggregator,
    Objectives,
    RowNorm,
    check_names,
    nonzero_vectors,
)
from rlcomp.seed import new_generator


class MGDA(GramianAggregator):
    """MGDA: multiple-gradient descent.

    ``w = argmin_c |sum_i c_i g_i|^2`` over the simplex, solved exactly.

    The combination conflicts with no vector. It is not scale-invariant: short vectors dominate.

    Args:
        row_norm: divisor of the vectors: ``"none"``: 1, the paper's method; ``"unit"``: their
            length, which gives the direction with the same angle to all vectors of positive weight;
            ``"ema"``: a running mean of their length.

    Source:
        Désidéri 2012; Sener & Koltun 2018, arXiv:1810.04650, eq. 3.
    """

    def __init__(self, *, row_norm: RowNorm = "none") -> None:
        super().__init__(row_norm=row_norm)

    def gram_weights(self, gram: Tensor) -> Tensor:
        """Return the weights on the simplex."""
        return min_norm(gram)


class NashMTL(GramianAggregator):
    """Nash-MTL: the Nash bargaining solution, by torchjd's solver.

    ``G a = 1 / a`` (elementwise) with ``G`` the Gram matrix: maximises ``prod_i g_i . v`` over
    steps ``v`` of fixed length.

    The weights are scaled so that the step is at most as long as the mean divisor.

    Args:
        row_norm: divisor of the vectors: ``"none"``: the root mean square of all lengths,
            ``"unit"``: their length, ``"ema"``: a running mean of their length. The direction does
            not depend on it.
        num_iterations: largest number of iterations of the solver.

    Raises:
        MissingExtra: torchjd, cvxpy or ecos is not installed.
        NumericalError: the weights are not finite.

    Source:
        Navon et al. 2022, arXiv:2202.01017, eq. 2 and algorithm 1.
    """

    def __init__(self, *, row_norm: RowNorm = "unit", num_iterations: PositiveInt = 20) -> None:
        super().__init__(row_norm=row_norm)
        self.num_iterations = num_iterations
        require("torchjd", "pareto")
        self._solver(1)

    def gram_weights(self, gram: Tensor) -> Tensor:
        """Return the positive weights."""
        # The solver uses only the Gram matrix of its input, so it gets a square root of ``gram``.
        values, vectors = torch.linalg.eigh(gram)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You are solving a parameterized problem")
            weights: Tensor = self._solver(len(gram))(vectors * values.clamp(min=0).sqrt())
        if not bool(weights.isfinite().all()):
            raise NumericalError(f"NashMTL: the weights are {weights.tolist()}")
        return weights

    def _solver(self, count: int) -> torch.nn.Module:
        from torchjd.aggregation import NashMTL as Solver

        try:
            # A new solver for each batch: its warm start would be a hidden state.
            solver = Solver(n_tasks=count, max_norm=1.0, optim_niter=self.num_iterations)
        except ImportError as error:
            raise MissingExtra(f"{error}, or pip install 'rlcomp[solvers]'") from None
        weighting: torch.nn.Module = solver.weighting
        return weighting


# A mean is rounding noise if its ratio to the norm of the vector is below this value.
ROUNDING = 1e-6


class PAMA(Aggregator):
    """PAMA: minimum-norm weights in advantage space.

    ``w = argmin_c |sum_i c_i I(A_i)|^2`` over the simplex, which minimises the upper bound
    ``|sum_i c_i grad L_i|^2 <= |sum_i c_i I(A_i)|^2 |grad u|^2`` without a backward pass. ``u`` are
    the tokens' probability ratios of PPO; on-policy, ratios and log-probs have equal gradients.

    It serves ``advantage=per_objective``. ``I(A)`` is A if PPO's clip is inactive; the weights are
    computed on-policy, so ``I(A)`` is always A. An objective whose vector is 0 (missing from the
    batch, or equal rewards in every group) gets the weight 0; otherwise it would get all the weight
    and the step would be 0. The weights depend on the units of the objectives: divide by running
    scales first, as ``per_objective`` does. After division by the std of the batch, two
    objectives with advantages of both signs always have equal weights.

    Args:
        mode: ``"vector"`` uses the tokens' advantages; ``"scalar"`` uses the mean advantage of each
            objective (the paper's form). If all means are positive, as under
            :class:`components.advantage.reweighted.Noon`, the scalar mode
            trains only the objective of the smallest mean; objectives with equal means have equal
            weights. Without Noon the scalar mode has little meaning: group-centred advantages sum
            to 0 over the answers, so that their mean over tokens measures the correlation of reward
            and length, and is 0 for equal lengths. Means below 1e-6 of the vector's norm count as
            0.

    Source:
        He et al. 2025, arXiv:2508.07768, theorem 1; the vector mode is the bound before the paper's
        reduction to scalars.
    """

    def __init__(self, *, mode: Literal["vector", "scalar"] = "vector") -> None:
        super().__init__()
        self.mode: Literal["vector", "scalar"] = mode

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weights of the objectives; all 0 if every vector is 0."""
        active = nonzero_vectors(objectives)
        weights = torch.zeros(len(objectives.names), dtype=torch.float64)
        if not bool(active.any()):
            return weights
        if self.mode == "scalar":
            weights[active] = scalar_weights(_means(objectives)[active])
        else:
            weights[active] = min_norm(objectives.gram[active][:, active])
        return weights


def _means(objectives: Objectives) -> Tensor:
    """Return the means ``[K]``, with rounding noise set to 0."""
    means, norms = objectives.means, objectives.gram.diagonal().sqrt()
    return torch.where(means.abs() < ROUNDING * norms, torch.zeros_like(means), means)


class LagrangianAggregator(Aggregator):
    """Lagrangian constrained optimisation (CMDP).

    ``max J_0 s.t. J_i >= c_i``: weights 1 and ``lambda_i``, with dual ascent
    ``lambda_i <- max(0, lambda_i + step (c_i - J_i))`` after each use; J is the mean reward of the
    batch. The multipliers begin at 0. A batch without an objective leaves its multiplier unchanged.

    Args:
        maximise: name of ``J_0``, the objective of weight 1.
        thresholds: ``c_i`` of every other objective by name, in its reward units.
        step: step size of the multipliers, per reward unit.

    Raises:
        ConfigError: ``thresholds`` is empty or has an entry for ``maximise``, or a batch has
            objectives of other names.

    Source:
        Altman 1999; Tessler et al. 2018, arXiv:1805.11074, eq. 9.
    """

    reward_units = True

    multipliers: Tensor

    def __init__(
        self, *, maximise: NonEmptyText, thresholds: dict[str, float], step: PositiveFloat = 0.1
    ) -> None:
        super().__init__()
        if not thresholds or maximise in thresholds:
            raise ConfigError(
                f"LagrangianAggregator: thresholds is {thresholds}: give one threshold for every "
                f"objective except {maximise!r}, which is maximised"
            )
        self.maximise = maximise
        self.thresholds = dict(thresholds)
        self.step = step
        start = torch.zeros(len(thresholds), dtype=torch.float64)
        self.register_buffer("multipliers", start)

    def check(self, names: Sequence[str]) -> None:
        """Refuse thresholds of unknown objectives."""
        check_names("LagrangianAggregator", "thresholds", [self.maximise, *self.thresholds], names)

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return 1 and the multipliers, in the order of the objectives; then update these."""
        names = list(objectives.names)
        self.check(names)
        weights = torch.ones(len(names), dtype=torch.float64)
        indices = [names.index(name) for name in self.thresholds]
        weights[indices] = self.multipliers
        thresholds = torch.tensor(list(self.thresholds.values()), dtype=torch.float64)
        updated = dual_ascent(self.multipliers, objectives.returns[indices], thresholds, self.step)
        self.multipliers.copy_(updated)
        return weights


class TorchJDAggregator(GramianAggregator):
    """Adapter of torchjd's ``Weighting`` classes (UPGrad, PCGrad, CAGrad, ...).

    Each batch gets a new instance. With raw gradients of different lengths most methods conflict
    with an objective (UPGrad through its regularisation, MGDA by early stopping). With vectors of
    unit length they keep their guarantees. Randomised methods (PCGrad) draw from the generator of
    this component.

    Args:
        weighting: function that returns a weighting, such as the class
            ``torchjd.aggregation.UPGradWeighting``. The weighting takes a Gram matrix and has no
            state between batches.
        row_norm: divisor of the vectors: ``"none"``: the root mean square of all lengths,
            ``"unit"``: their length, ``"ema"``: a running mean of their length.

    Raises:
        MissingExtra: torchjd, or the solver this weighting needs, is not installed.
        NumericalError: the weights are not finite.

    Source:
        Quinton & Rey 2024, arXiv:2406.16232 (torchjd). The comment of each option names the paper
        of its method.
    """

    def __init__(self, *, weighting: Callable[[], nn.Module], row_norm: RowNorm = "unit") -> None:
        super().__init__(row_norm=row_norm)
        require("torchjd", "pareto")
        try:
            weighting()
        except ImportError as error:
            raise MissingExtra(f"{error}, or pip install 'rlcomp[solvers]'") from None
        self.weighting = weighting
        self.generator = new_generator()

    def gram_weights(self, gram: Tensor) -> Tensor:
        """Return the weights, which need not sum to 1."""
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.generator.get_state())
            weights: Tensor = self.weighting()(gram)
            self.generator.set_state(torch.get_rng_state())
        if not bool(weights.isfinite().all()):
            raise NumericalError(f"TorchJDAggregator: the weights are {weights.tolist()}")
        return weights
