"""Distribution of Gaussians on a ring."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlcomp.arguments import Checked, PositiveFloat, PositiveInt


class RingOfGaussians(metaclass=Checked):
    """Mixture of ``M`` equal Gaussians in the plane with means evenly spaced on a circle.

    The means are ``c_m = r (cos 2 pi m / M, sin 2 pi m / M)``, ``m = 0 ... M - 1``.

    Args:
        num_modes: ``M``, number of Gaussians.
        radius: ``r``, radius of the circle.
        std: standard deviation of each Gaussian, in both directions.
    """

    def __init__(
        self, *, num_modes: PositiveInt = 8, radius: PositiveFloat = 2.0, std: PositiveFloat = 0.15
    ) -> None:
        self.num_modes, self.radius, self.std = num_modes, radius, std
        angle = 2 * math.pi * torch.arange(num_modes) / num_modes
        self.centres = radius * torch.stack([angle.cos(), angle.sin()], dim=1)

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw and return points, ``[rows, 2]``."""
        mode = torch.randint(self.num_modes, (rows,), generator=generator)
        return self.centres[mode] + self.std * torch.randn(rows, 2, generator=generator)
