"""Aggregator with the objectives in other units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.errors import ConfigError
from rlcomp.pareto.aggregator import Aggregator, Objectives, check_names


class Scaled(Aggregator):
    """Another aggregator applied to scaled objectives.

    ``w_k = s_k v_k`` with ``v`` the weights of the aggregator for the vectors ``s_k g_k``, as if
    the rewards were multiplied by ``s``. It gives a preference to methods that take none but depend
    on units (MGDA, PAMA). Recorded returns and other metrics keep their units.

    Args:
        aggregator: another one: ``pareto@learner.aggregator.aggregator=mgda``.
        scales: a factor for each objective, by name.

    Raises:
        ConfigError: an objective has no factor, or a factor no objective; or the aggregator is of
            expected returns, with weights of its own.

    Source:
        This project.
    """

    def __init__(self, *, aggregator: Aggregator, scales: dict[str, PositiveFloat]) -> None:
        super().__init__()
        if aggregator.of_returns:
            raise ConfigError(
                f"Scaled: aggregator is {type(aggregator).__name__}, which weighs by the expected "
                "returns: use its own weights instead of scales"
            )
        self.aggregator = aggregator
        self.scales = scales

    def check(self, names: Sequence[str]) -> None:
        """Refuse unknown objectives, and objectives without a factor."""
        check_names("Scaled", "scales", self.scales, names)
        self.aggregator.check(names)

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weights of the unscaled objectives, shape ``[K]`` or ``[B, K]``."""
        check_names("Scaled", "scales", self.scales, objectives.names)
        scales = torch.tensor([self.scales[name] for name in objectives.names], dtype=torch.float64)
        shown = replace(
            objectives,
            means=objectives.means * scales,
            gram=objectives.gram * scales.outer(scales),
        )
        return self.aggregator.weigh(shown) * scales
