"""PAMA: Pareto multi-objective alignment from the advantages alone."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlcomp.functional.min_norm import min_norm
from rlcomp.functional.pama import scalar_weights
from rlcomp.pareto.aggregator import Aggregator, Objectives, moving

# A mean this small beside the vector is what rounding left of 0.
ROUNDING = 1e-6


class Pama(Aggregator):
    """PAMA: minimum-norm weights in advantage space.

    ``w = argmin_c |sum_i c_i I(A_i)|^2`` over the simplex, which minimises the upper bound
    ``|sum_i c_i grad L_i|^2 <= |sum_i c_i I(A_i)|^2 |grad u|^2`` without a backward pass.

    Meant for ``advantage=per_objective``. ``I(A)`` is A where PPO's clip is inactive, which is
    everywhere on-policy, where the weights are computed. An objective whose vector is 0 (missing
    from the batch, or equal rewards in every group) is left out: it would take all the weight and
    stop the step. The weights depend on the units of the objectives: divide by running scales
    first, as ``per_objective`` does. With the std of each batch instead, two signed objectives
    always weigh the same.

    Args:
        mode: ``"vector"``: of the tokens' advantages; ``"scalar"``: of the mean advantage of each
            objective (the paper's form), which trains the objective of the smallest mean advantage
            alone where all means are positive, as Noon makes them. Without Noon it means little:
            advantages less the mean of their group sum to 0 over the answers, so that their mean
            over tokens measures how reward and length go together, and where all answers have one
            length nothing: means below 1e-6 of the vector's size count as 0, and objectives that
            tie share equally.

    Source:
        He et al. 2025, arXiv:2508.07768, theorem 1; the vector mode is the bound before the paper
        reduces it to scalars.
    """

    def __init__(self, *, mode: Literal["vector", "scalar"] = "vector") -> None:
        super().__init__()
        self.mode: Literal["vector", "scalar"] = mode

    def weigh(self, objectives: Objectives) -> Tensor:
        """The weights of the objectives; all 0 if every vector is 0."""
        among = moving(objectives)
        weights = torch.zeros(len(objectives.names), dtype=torch.float64)
        if not bool(among.any()):
            return weights
        if self.mode == "scalar":
            weights[among] = scalar_weights(_means(objectives)[among])
        else:
            weights[among] = min_norm(objectives.gram[among][:, among])
        return weights


def _means(objectives: Objectives) -> Tensor:
    """The means, exactly 0 where they are rounding noise."""
    means, sizes = objectives.means, objectives.gram.diagonal().sqrt()
    return torch.where(means.abs() < ROUNDING * sizes, torch.zeros_like(means), means)
