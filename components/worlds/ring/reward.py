"""Distance to a mode, as a reward of samples."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.distribution import HasModes, nearest_mode
from rlcomp.interfaces.reward import write_reward


class ModeDistance(Component):
    """``R = -|x - c_m|``: how near a sample is to one mode of the distribution.

    A sample is correct where no other mode is nearer.

    Reads ``sample`` ``[B, D]``. Writes ``reward``, ``rewards``, ``correct`` and ``reward_valid``
    ``[B]``: not valid where the sample is not finite.

    Args:
        distribution: has the modes.
        mode: the number of the one that is rewarded.

    Raises:
        ConfigError: there is no such mode.
    """

    keys = {"sample": ("B D", "float", "a point: of the data, or what a flow has led to")}
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
        right = nearest_mode(points, centres) == self.mode
        return write_reward(batch, reward, {"mode": reward}, right, reward.isfinite())
