"""Reward of a sample by its distance to a mode."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.reward import write_reward
from rlcomp.interfaces.stages import HasModes, nearest_mode


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
