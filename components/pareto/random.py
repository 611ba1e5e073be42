"""Random loss weighting (RLW)."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.pareto.aggregator import Aggregator, Objectives
from rlcomp.seed import new_generator


class Random(Aggregator):
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
