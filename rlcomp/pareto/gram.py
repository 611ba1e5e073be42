"""Aggregators that go by the inner products of the objectives' vectors alone."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlcomp.pareto.aggregator import Aggregator, Objectives, moving
from rlcomp.pareto.running_means import RunningMeans

RowNorm = Literal["none", "unit", "ema"]

# Weight of the past in the running norms.
NORM_DECAY = 0.9


class GramianAggregator(Aggregator):
    """Weights from a Gram matrix, with the vectors brought to a common length before.

    A vector that is 0 (the objective is missing from the batch, or rates all answers of each group
    alike) points nowhere and gets weight 0; one that is left alone gets weight 1. With
    ``n_i`` the length by which vector ``i`` is divided and ``v`` the weights of the divided ones,
    the weights are ``v_i * mean(n) / n_i``: what they make of the vectors themselves is what ``v``
    makes of the divided ones, back in their common unit.

    Args:
        row_norm: ``"none"``: all are divided by the same length; ``"unit"``: each by its own;
            ``"ema"``: each by a running mean of its own.
    """

    def __init__(self, *, row_norm: RowNorm) -> None:
        super().__init__()
        self.row_norm: RowNorm = row_norm
        self.norms = RunningMeans(NORM_DECAY)

    def of_gram(self, gram: Tensor) -> Tensor:
        """The weights of two or more vectors, none of them 0.

        Args:
            gram: inner products of the divided vectors, shape ``[K, K]``, float64, on the CPU.

        Returns:
            Shape ``[K]``.
        """
        raise NotImplementedError

    def weigh(self, objectives: Objectives) -> Tensor:
        """The weights of the objectives, shape ``[K]``."""
        among = moving(objectives)
        weights = torch.zeros(len(objectives.names), dtype=torch.float64)
        if int(among.sum()) <= 1:
            return among.double()
        gram = objectives.gram[among][:, among]
        lengths = self._lengths(objectives, among)
        weights[among] = self.of_gram(gram / torch.outer(lengths, lengths)) * (
            lengths.mean() / lengths
        )
        return weights

    def _lengths(self, objectives: Objectives, among: Tensor) -> Tensor:
        own = objectives.gram.diagonal().sqrt()
        if self.row_norm == "none":
            return own[among].square().mean().sqrt().expand(int(among.sum()))
        if self.row_norm == "ema":
            names = [name for name, moves in zip(objectives.names, among, strict=True) if moves]
            pairs = zip(names, own[among].tolist(), strict=True)
            running = [self.norms.update(name, norm) for name, norm in pairs]
            return torch.tensor(running, dtype=torch.float64)
        return own[among]
