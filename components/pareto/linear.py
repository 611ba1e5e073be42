"""Linear scalarisation: fixed weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rlcomp.errors import ConfigError
from rlcomp.pareto.aggregator import Aggregator, Objectives, named_weights


class Linear(Aggregator):
    """Linear scalarisation: fixed weights.

    ``sum_k w_k x_k`` with ``x_k`` the rewards, advantages or gradients. With
    ``advantage=per_objective`` an ``x_k`` is in units of the running std of its rewards
    (``scale: none`` for reward units).

    Args:
        weights: weight of every objective, by name; they need not sum to 1. null: 1/K each.

    Raises:
        ConfigError: ``weights`` is empty, or (in :meth:`check` and :meth:`weigh`) names other
            objectives.

    Source:
        Roijers et al. 2013, arXiv:1402.0590, section 4.2 (linear scalarisation).
    """

    def __init__(self, *, weights: dict[str, float] | None = None) -> None:
        super().__init__()
        if weights is not None and not weights:
            raise ConfigError("Linear: weights is empty: name each objective, or set it to null")
        self.weights = None if weights is None else dict(weights)

    def check(self, names: Sequence[str]) -> None:
        """Refuse weights of unknown objectives."""
        named_weights("Linear", self.weights, names)

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weights, in the order of the objectives."""
        return named_weights("Linear", self.weights, objectives.names)
