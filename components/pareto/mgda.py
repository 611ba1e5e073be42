"""MGDA: the minimum-norm convex combination."""

from __future__ import annotations

from torch import Tensor

from rlcomp.functional.min_norm import min_norm
from rlcomp.pareto.gram import GramianAggregator, RowNorm


class Mgda(GramianAggregator):
    """MGDA: multiple-gradient descent.

    ``w = argmin_c |sum_i c_i g_i|^2`` over the simplex, solved exactly.

    The combination conflicts with no vector. It is not scale-invariant: short vectors dominate.

    Args:
        row_norm: ``"none"`` is the method; ``"unit"`` gives the direction with the same angle to
            all vectors of positive weight.

    Source:
        Désidéri 2012; Sener & Koltun 2018, arXiv:1810.04650, eq. 3.
    """

    def __init__(self, *, row_norm: RowNorm = "none") -> None:
        super().__init__(row_norm=row_norm)

    def of_gram(self, gram: Tensor) -> Tensor:
        """Return the weights on the simplex."""
        return min_norm(gram)
