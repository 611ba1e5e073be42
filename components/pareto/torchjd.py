"""torchjd's aggregators (UPGrad, PCGrad, CAGrad, ...) on a normalised Gram matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rlcomp.errors import MissingExtra, NumericalError, require
from rlcomp.pareto.gram import GramianAggregator, RowNorm
from rlcomp.seed import new_generator


class Torchjd(GramianAggregator):
    """Adapter of torchjd's ``Weighting`` classes (UPGrad, PCGrad, CAGrad, ...).

    Each batch gets a new instance. With raw gradients of different lengths most methods conflict
    with an objective (UPGrad through its regularisation, MGDA by early stopping). With unit rows
    they keep their guarantees. Randomised methods (PCGrad) draw from this component's generator.

    Args:
        weighting: constructor of the weighting, such as ``torchjd.aggregation.UPGradWeighting``; it
            takes a Gram matrix and has no state between batches.
        row_norm: divisor of the vectors.

    Raises:
        MissingExtra: torchjd, or the solver this weighting needs, is not installed.
        NumericalError: the weights are not finite.

    Source:
        Quinton & Rey 2024, arXiv:2406.16232 (torchjd); each method's paper in its option.
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

    def of_gram(self, gram: Tensor) -> Tensor:
        """Return the weights, which need not sum to 1."""
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.generator.get_state())
            weights: Tensor = self.weighting()(gram)
            self.generator.set_state(torch.get_rng_state())
        if not bool(weights.isfinite().all()):
            raise NumericalError(f"Torchjd: the weights are {weights.tolist()}")
        return weights
