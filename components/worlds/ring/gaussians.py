"""Distribution of Gaussians on a ring, and the reward of a sample by its distance to a mode."""

from __future__ import annotations

import math

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Checked, NonNegativeInt, PositiveFloat, PositiveInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.reward import write_reward
from rlcomp.interfaces.stages import HasModes, nearest_mode


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


class ModeDistance(Component):
    """Reward ``R = -|x - c_m|``, the negative distance of a sample ``x`` to the mode ``c_m``.

    A sample is correct if no other mode is nearer.

    Reads ``sample`` ``[B, D]``. Writes ``reward``, ``rewards``, ``correct`` and ``reward_valid``
    ``[B]``. The reward is not valid if the sample is not finite.

    Args:
        distribution: the distribution with the modes.
        mode: number ``m`` of the rewarded mode, from 0.

    Raises:
        ConfigError: the distribution has no mode of this number.
    """

    keys = {"sample": ("B D", "float", "point of the data, or end point of a flow")}
    reads = ("sample",)
    writes = ("reward", "rewards", "correct", "reward_valid")

    def __init__(self, *, distribution: HasModes, mode: NonNegativeInt = 0) -> None:
        super().__init__()
        if mode >= (count := len(distribution.centres)):
            raise ConfigError(
                f"reward.mode is {mode}, but the distribution has {count} modes: set it to 0 to "
                f"{count - 1}"
            )
        self.distribution = distribution
        self.mode = mode

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reward."""
        points, centres = batch["sample"].detach(), self.distribution.centres
        reward = -(points - centres[self.mode]).norm(dim=-1)
        correct = nearest_mode(points, centres) == self.mode
        return write_reward(batch, reward, {"mode": reward}, correct, reward.isfinite())
