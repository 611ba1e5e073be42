"""Nash-MTL: the Nash bargaining solution."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.errors import MissingExtra, NumericalError, require
from rlcomp.pareto.gram import GramianAggregator, RowNorm


class NashMtl(GramianAggregator):
    """Nash-MTL: the Nash bargaining solution, by torchjd's solver.

    ``G a = 1 / a`` (elementwise) with ``G`` the Gram matrix: maximises ``prod_i g_i . v`` over
    steps ``v`` of fixed length.

    The weights are scaled so that the step is at most as long as a row.

    Args:
        row_norm: divisor of the vectors; the direction does not depend on it.
        num_iterations: most iterations of the solver.

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

    def of_gram(self, gram: Tensor) -> Tensor:
        """Return the positive weights."""
        # The solver takes a matrix but uses only its Gram matrix, so pass a square root of that.
        values, vectors = torch.linalg.eigh(gram)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You are solving a parameterized problem")
            weights: Tensor = self._solver(len(gram))(vectors * values.clamp(min=0).sqrt())
        if not bool(weights.isfinite().all()):
            raise NumericalError(f"NashMtl: the weights are {weights.tolist()}")
        return weights

    def _solver(self, count: int) -> torch.nn.Module:
        from torchjd.aggregation import NashMTL

        try:
            # A new solver for each batch: its warm start would be a hidden state.
            solver = NashMTL(n_tasks=count, max_norm=1.0, optim_niter=self.num_iterations)
        except ImportError as error:
            raise MissingExtra(f"{error}, or pip install 'rlcomp[solvers]'") from None
        weighting: torch.nn.Module = solver.weighting
        return weighting
