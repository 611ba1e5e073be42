"""Constrained RL: one objective subject to thresholds on the others (Lagrangian)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveFloat
from rlcomp.errors import ConfigError
from rlcomp.functional.scalarization import dual_ascent
from rlcomp.pareto.aggregator import Aggregator, Objectives, check_names


class Constrained(Aggregator):
    """Lagrangian constrained optimisation (CMDP).

    ``max J_0 s.t. J_i >= c_i``: weights 1 and ``lambda_i``, with dual ascent
    ``lambda_i <- max(0, lambda_i + step (c_i - J_i))`` after each use; J is the mean reward of the
    batch.

    Args:
        maximise: the objective with weight 1.
        thresholds: c of every other objective by name, in its reward units.
        step: of the multipliers, per reward unit.

    Raises:
        ConfigError: there are no thresholds or one for ``maximise``, or a batch has objectives with
            other names.

    Source:
        Altman 1999; Tessler et al. 2018, arXiv:1805.11074, eq. 9.
    """

    of_returns = True

    multipliers: Tensor

    def __init__(
        self, *, maximise: NonEmptyText, thresholds: dict[str, float], step: PositiveFloat = 0.1
    ) -> None:
        super().__init__()
        if not thresholds or maximise in thresholds:
            raise ConfigError(
                f"Constrained: thresholds is {thresholds}: give one for every objective except "
                f"{maximise!r}, which is maximised"
            )
        self.maximise = maximise
        self.thresholds = dict(thresholds)
        self.step = step
        start = torch.zeros(len(thresholds), dtype=torch.float64)
        self.register_buffer("multipliers", start)

    def check(self, names: Sequence[str]) -> None:
        """Refuse thresholds of unknown objectives."""
        check_names("Constrained", "thresholds", [self.maximise, *self.thresholds], names)

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return 1 and the multipliers, in the order of the objectives."""
        names = list(objectives.names)
        self.check(names)
        weights = torch.ones(len(names), dtype=torch.float64)
        places = [names.index(name) for name in self.thresholds]
        weights[places] = self.multipliers
        thresholds = torch.tensor(list(self.thresholds.values()), dtype=torch.float64)
        moved = dual_ascent(self.multipliers, objectives.returns[places], thresholds, self.step)
        self.multipliers.copy_(moved)
        return weights
