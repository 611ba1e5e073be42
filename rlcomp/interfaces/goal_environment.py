"""Interface of environments with goals that hindsight relabelling needs."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class RewardsGoals(Protocol):
    """Environment that knows the reward of a step for any goal, not only for the desired one."""

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the reward ``[N]`` of steps to ``achieved`` under the goal ``desired``."""
        ...
