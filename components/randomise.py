"""Distributions of environment parameters for domain randomisation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from rlcomp.arguments import Checked, Fraction
from rlcomp.interfaces.stages import Range, named_ranges


class UniformDynamics(metaclass=Checked):
    """Domain randomisation: uniform parameters in ``[x (1 - w), x (1 + w)]`` for each episode.

    ``x`` is the parameter's nominal value.

    Args:
        width: ``w`` of every parameter of the environment, in [0, 1); unused if ``ranges`` are
            given.
        ranges: ``[low, high]`` of each random parameter by name, in its units. None: all parameters
            are random.

    Source:
        Tobin et al. 2017, arXiv:1703.06907; Peng et al. 2018, arXiv:1710.06537 (dynamics).
    """

    def __init__(
        self, *, width: Fraction = 0.5, ranges: Mapping[str, list[float]] | None = None
    ) -> None:
        self.width = width
        self.fixed_ranges = dict(ranges or {})

    def ranges(self, nominal: Mapping[str, float]) -> dict[str, Range]:
        """Return the lowest and the highest value of each random parameter.

        Raises:
            ConfigError: a parameter is unknown, or a range is not ``[low, high]``.
        """

        def default_range(value: float) -> Range:
            return value * (1 - self.width), value * (1 + self.width)

        return named_ranges(nominal, self.fixed_ranges, default_range, -math.inf)  # no lower bound

    def draw(self, low: Tensor, high: Tensor, generator: torch.Generator) -> Tensor:
        """Return ``low + (high - low) u`` with ``u`` uniform in [0, 1)."""
        return low + (high - low) * torch.rand(low.shape, generator=generator)


class LogUniform(metaclass=Checked):
    """Domain randomisation: log-uniform parameters in ``[x / f, x f]`` for each episode.

    ``x`` is the parameter's nominal value. Half of the draws are below ``x`` and half above.

    Args:
        factor: ``f`` of every parameter of the environment, at least 1; unused if ``ranges``
            are given.
        ranges: ``[low, high]`` above 0 of each random parameter by name, in its units. None: all
            parameters are random.

    Source:
        Tobin et al. 2017, arXiv:1703.06907; Peng et al. 2018, arXiv:1710.06537, table 1
        (log-uniform masses and gains).
    """

    def __init__(
        self,
        *,
        factor: Annotated[float, Ge(1)] = 2.0,
        ranges: Mapping[str, list[float]] | None = None,
    ) -> None:
        self.factor = factor
        self.fixed_ranges = dict(ranges or {})

    def ranges(self, nominal: Mapping[str, float]) -> dict[str, Range]:
        """Return the lowest and the highest value of each random parameter.

        Raises:
            ConfigError: a parameter is unknown, or a range is not ``[low, high]``, above 0.
        """

        def default_range(value: float) -> Range:
            return value / self.factor, value * self.factor

        return named_ranges(nominal, self.fixed_ranges, default_range, 0.0)

    def draw(self, low: Tensor, high: Tensor, generator: torch.Generator) -> Tensor:
        """Return ``low (high / low)^u`` with ``u`` uniform in [0, 1)."""
        return low * (high / low) ** torch.rand(low.shape, generator=generator)
