"""What hindsight asks of an environment with goals."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class RewardsGoals(Protocol):
    """Knows the reward of a step for any goal, not only for the one that was asked for."""

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Reward ``[N]`` of steps that led to ``achieved`` where ``desired`` was asked for."""
        ...
