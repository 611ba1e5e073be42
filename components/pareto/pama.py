"""PAMA: Pareto multi-objective alignment from the advantages alone."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rlcomp.functional.min_norm import min_norm
from rlcomp.functional.pama import scalar_weights
from rlcomp.pareto.aggregator import Aggregator, Objectives, moving

# A mean is rounding noise if it is this small relative to the vector.
ROUNDING = 1e-6


class Pama(Aggregator):
    """PAMA: minimum-norm weights in advantage space.

    ``w = argmin_c |sum_i c_i I(A_i)|^2`` over the simplex, which minimises the upper bound
    ``|sum_i c_i grad L_i|^2 <= |sum_i c_i I(A_i)|^2 |grad u|^2`` without a backward pass.

    It is made for ``advantage=per_objective``. ``I(A)`` is A if PPO's clip is inactive. The weights
    are computed on-policy, so this holds everywhere. An objective whose vector is 0 (missing from
    the batch, or equal rewards in every group) is left out: it would take all the weight and stop
    the step. The weights depend on the units of the objectives: divide by running scales first, as
    ``per_objective`` does. With the std of each batch instead, two signed objectives always have
    equal weights.

    Args:
        mode: ``"vector"`` uses the tokens' advantages; ``"scalar"`` the mean advantage of each
            objective (the paper's form). If all means are positive, as with Noon, the scalar mode
            trains only the objective of the smallest mean. Without Noon it has little meaning:
            group-centred advantages sum to 0 over the answers, so that their mean over tokens
            measures the correlation of reward and length, and is 0 for equal lengths. Means below
            1e-6 of the vector's size count as 0. Tied objectives share equally.

    Source:
        He et al. 2025, arXiv:2508.07768, theorem 1; the vector mode is the bound before the paper's
        reduction to scalars.
    """

    def __init__(self, *, mode: Literal["vector", "scalar"] = "vector") -> None:
        super().__init__()
        self.mode: Literal["vector", "scalar"] = mode

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weights of the objectives; all 0 if every vector is 0."""
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
    """Return the means, with rounding noise set to 0."""
    means, sizes = objectives.means, objectives.gram.diagonal().sqrt()
    return torch.where(means.abs() < ROUNDING * sizes, torch.zeros_like(means), means)
