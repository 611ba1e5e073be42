"""Winding road on which a car must keep its lane."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveInt
from rlcomp.interfaces.batched_environment import BatchedEnvironment, Randomises


class Track(BatchedEnvironment):
    """Environment of a car of constant speed on a winding road, steered by its curvature.

    State: offset from the middle ``y`` in half widths of the road, heading ``h`` against the road
    (rad), place ``s`` along it. ``y' = v sin h``, ``h' = v (u + noise n - k(s))``, ``n ~ N(0, 1)``,
    with ``v = 2``, steps of 0.1 s, curvature ``k(s) = 0.4 sin(0.35 s) + 0.2 sin(0.9 s + 1)`` and
    the action ``u`` in [-2, 2]. Off the road (``|y| > 1``) the car goes on and may come back.
    ``y`` stays in [-3, 3], ``h`` in [-1.2, 1.2]. Reward ``1 - |y|``.

    Observation: ``y``, ``h``, ``k(s)``; a further entry is ``off_road`` ``[N, 1]``.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is cut.
        noise: standard deviation of the noise on the steering.
        randomise: draws ``speed`` and ``noise`` for each episode.
    """

    size = 3
    action = (-2.0, 2.0)
    speed, seconds = 2.0, 0.1
    dynamics_names = ("speed", "noise")

    def __init__(
        self,
        *,
        num_envs: PositiveInt = 2,
        max_steps: PositiveInt = 40,
        noise: NonNegativeFloat = 0.2,
        randomise: Randomises | None = None,
    ) -> None:
        # set first: super().__init__ asks for the parameters
        object.__setattr__(self, "noise", noise)
        super().__init__(num_envs=num_envs, max_steps=max_steps, randomise=randomise)

    def begin(self) -> Tensor:
        """Start in the middle, heading along the road, at a random place."""
        return torch.cat([torch.zeros(self.num_envs, 2), self.uniform(1, 0.0, 50.0)], dim=1)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take one Euler step; an episode never terminates."""
        offset, heading, place = state.unbind(1)
        speed, noise = self.dynamics.values()
        slip = noise * torch.randn(len(state), generator=self.generator)
        step = speed * self.seconds
        turned = action[:, 0].clamp(*self.action) + slip - curvature(place)
        heading = (heading + step * turned).clamp(-1.2, 1.2)
        offset = (offset + step * heading.sin()).clamp(-3.0, 3.0)
        after = torch.stack([offset, heading, place + step], dim=1)
        return after, 1 - offset.abs(), torch.zeros_like(offset, dtype=torch.bool)

    def observe(self, state: Tensor) -> Tensor:
        """Return ``[y, h, k(s)]``."""
        offset, heading, place = state.unbind(1)
        return torch.stack([offset, heading, curvature(place)], dim=1)

    def seen(self, state: Tensor) -> dict[str, Tensor]:
        """Return the observation and ``off_road``, 0 or 1."""
        off = (state[:, :1].abs() > 1).float()
        return {"observation": self.observe(state), "off_road": off}


def curvature(place: Tensor) -> Tensor:
    """Return the curvature of the road, radians per unit of length.

    Examples:
        >>> curvature(torch.tensor([0.0]))  # 0.2 sin 1
        tensor([0.1683])
    """
    return 0.4 * (0.35 * place).sin() + 0.2 * (0.9 * place + 1.0).sin()
