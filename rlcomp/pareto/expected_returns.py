"""Base class of aggregators on expected returns (SER)."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.pareto.aggregator import Aggregator, Objectives
from rlcomp.pareto.running_means import RunningMeans


class ExpectedReturns(Aggregator):
    """Aggregator that tracks each objective's running mean return J, and the highest J so far.

    A batch without an objective leaves its J unchanged.

    Args:
        decay: weight of the past in J; 0 for the mean of the batch alone.
    """

    of_returns = True

    def __init__(self, *, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.returns = RunningMeans(decay)
        self.best = RunningMeans(0.0)

    def expected(self, objectives: Objectives) -> tuple[Tensor, Tensor]:
        """Update with a batch; return J and the highest J so far.

        Returns:
            J now and the highest J so far, shape ``[K]`` each, in reward units; NaN for objectives
            that no batch has had yet.
        """
        for name, value in zip(objectives.names, objectives.returns.tolist(), strict=True):
            if value == value:
                now, before = self.returns.update(name, value), self.best.get(name)
                self.best.update(name, now if before is None else max(now, before))
        return self._of(self.returns, objectives), self._of(self.best, objectives)

    def _of(self, means: RunningMeans, objectives: Objectives) -> Tensor:
        current = [means.get(name) for name in objectives.names]
        values = [torch.nan if value is None else value for value in current]
        return torch.tensor(values, dtype=torch.float64)
