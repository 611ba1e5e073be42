"""Base class of Gramian aggregators (MGDA, UPGrad, Nash-MTL, ...)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlcomp.pareto.aggregator import Aggregator, Objectives, nonzero_vectors
from rlcomp.pareto.running_means import RunningMeans

RowNorm = Literal["none", "unit", "ema"]

# Weight of the past in the running norms.
NORM_DECAY = 0.9


class GramianAggregator(Aggregator):
    """Aggregation weights from the Gram matrix of the (normalised) objective vectors.

    ``w_i = v_i * mean(n) / n_i`` with ``v`` the weights computed on ``g_i / n_i``, so that
    ``sum_i w_i g_i = mean(n) * sum_i v_i (g_i / n_i)``.

    A zero vector (objective missing from the batch, or equal rewards in every group) gets weight 0;
    a single non-zero vector gets weight 1.

    Args:
        row_norm: the norms ``n_i``. ``"none"``: all equal; ``"unit"``: the norm of each vector;
            ``"ema"``: a running mean of the norm of each vector.
    """

    def __init__(self, *, row_norm: RowNorm) -> None:
        super().__init__()
        self.row_norm: RowNorm = row_norm
        self.norms = RunningMeans(NORM_DECAY)

    def of_gram(self, gram: Tensor) -> Tensor:
        """Return the weights of two or more non-zero vectors.

        Args:
            gram: inner products of the divided vectors, shape ``[K, K]``, float64, on the CPU.

        Returns:
            Shape ``[K]``.
        """
        raise NotImplementedError

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weights of the objectives, shape ``[K]``."""
        active = nonzero_vectors(objectives)
        weights = torch.zeros(len(objectives.names), dtype=torch.float64)
        if int(active.sum()) <= 1:
            return active.double()
        gram = objectives.gram[active][:, active]
        lengths = self._lengths(objectives, active)
        weights[active] = self.of_gram(gram / torch.outer(lengths, lengths)) * (
            lengths.mean() / lengths
        )
        return weights

    def _lengths(self, objectives: Objectives, active: Tensor) -> Tensor:
        own = objectives.gram.diagonal().sqrt()
        if self.row_norm == "none":
            return own[active].square().mean().sqrt().expand(int(active.sum()))
        if self.row_norm == "ema":
            names = [name for name, moves in zip(objectives.names, active, strict=True) if moves]
            pairs = zip(names, own[active].tolist(), strict=True)
            running = [self.norms.update(name, norm) for name, norm in pairs]
            return torch.tensor(running, dtype=torch.float64)
        return own[active]
