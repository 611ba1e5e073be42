"""Preference weights: the preference vector of each row."""

from __future__ import annotations

from torch import Tensor

from rlcomp.errors import ConfigError
from rlcomp.pareto.aggregator import Aggregator, Objectives


class Preferred(Aggregator):
    """Weights equal to each row's preference, on which the policy was conditioned.

    Raises:
        ConfigError: (in :meth:`weigh`) there are no preferences, or not as many as objectives.
    """

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weight of each objective in each row, shape ``[B, K]``."""
        if objectives.preference is None:
            raise ConfigError(
                "aggregator: no stage draws preferences: use conditioning=text_prefix, or another "
                "aggregator"
            )
        count = objectives.preference.shape[1]
        if count != len(objectives.names):
            raise ConfigError(
                f"aggregator: a preference is of {count} objectives, but there are "
                f"{len(objectives.names)} ({', '.join(objectives.names)}): conditioning.objectives "
                "must be the stage that writes them"
            )
        return objectives.preference.double()
