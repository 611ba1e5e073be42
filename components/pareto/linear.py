"""The same weights from the first step to the last."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rlcomp.errors import ConfigError
from rlcomp.pareto.aggregator import Aggregator, Objectives, named_weights


class Linear(Aggregator):
    """A fixed weight for each objective, as it stands where it is weighed.

    With ``advantage=per_objective`` that is an advantage in standard deviations of the objective's
    rewards (``scale: none`` for reward units).

    Args:
        weights: by the objective's name, every one of them; they need not sum to 1. null: 1/K each.

    Raises:
        ConfigError: weights is empty; in :meth:`check` and :meth:`weigh`: it names other
            objectives.

    Source:
        Roijers et al. 2013, arXiv:1402.0590, section 4.2 (linear scalarisation).
    """

    def __init__(self, *, weights: dict[str, float] | None) -> None:
        super().__init__()
        if weights is not None and not weights:
            raise ConfigError("Linear: weights is empty: name each objective, or set it to null")
        self.weights = None if weights is None else dict(weights)

    def check(self, names: Sequence[str]) -> None:
        """Refuse weights of others."""
        named_weights("Linear", self.weights, names)

    def weigh(self, objectives: Objectives) -> Tensor:
        """The weights, in the order of the objectives."""
        return named_weights("Linear", self.weights, objectives.names)
