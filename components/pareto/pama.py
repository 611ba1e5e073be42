"""The least bound on the norm of the combined gradient, from the advantages alone."""

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
    """Weights on the simplex that make the combined advantage shortest.

    ``|sum_i c_i grad L_i|^2 <= |sum_i c_i I(A_i)|^2 |grad u|^2``: the first factor is minimised, so
    no backward pass is needed. Meant for ``advantage=per_objective``. ``I(A)`` is A where PPO's
    clip lets its gradient through: everywhere on the policy that sampled the batch, on which the
    weights are found. An objective whose vector is 0 (missing from the batch, or no answer better
    than another) is left out: kept, it would take all the weight and stop the step. Weights depend
    on the units of the objectives: divide by running scales first, as ``per_objective`` does.
    Divided by the std of each batch instead, two signed objectives always weigh the same.

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

    def __init__(self, *, mode: Literal["vector", "scalar"]) -> None:
        super().__init__()
        self.mode: Literal["vector", "scalar"] = mode

    def weigh(self, objectives: Objectives) -> Tensor:
        """The weights of the objectives; 0 in all where no vector points anywhere."""
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
