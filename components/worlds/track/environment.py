"""Environment of a car that must keep to the middle of a winding road, and its expert."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, PositiveInt
from rlcomp.component import Component
from rlcomp.interfaces.batched_environment import BatchedEnvironment, Randomises


class Track(BatchedEnvironment):
    """Environment of a car of constant speed on a winding road, steered by its curvature.

    The state is the offset ``y`` from the middle in half widths of the road, the heading ``h``
    relative to the road (radians), and the position ``s`` along the road. With time derivatives
    ``dy/dt = v sin h``, ``dh/dt = v (u + noise n - k(s))``, ``ds/dt = v``: speed ``v = 2``, action
    ``u`` in [-2, 2], ``n ~ N(0, 1)`` and curvature
    ``k(s) = 0.4 sin(0.35 s) + 0.2 sin(0.9 s + 1)``. A step takes 0.1 s. ``y`` is clipped to
    [-3, 3] and ``h`` to [-1.2, 1.2]. A car off the road (``|y| > 1``) continues and may come back.
    The reward of a step is ``1 - |y|`` after it.

    Observations: ``observation`` ``[N, 3]``, which is ``y``, ``h``, ``k(s)``; and ``off_road``
    ``[N, 1]``, 1 if ``|y| > 1``.

    Args:
        num_envs: number of copies.
        max_steps: steps after which an episode is cut.
        noise: standard deviation of the noise on the action.
        randomise: draws ``speed`` and ``noise`` for each episode; None: both are constant.
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
        # Set before super().__init__, which reads the parameters of the dynamics.
        object.__setattr__(self, "noise", noise)
        super().__init__(num_envs=num_envs, max_steps=max_steps, randomise=randomise)

    def begin(self) -> Tensor:
        """Draw states ``[N, 3]`` in the middle, along the road, at random positions."""
        return torch.cat([torch.zeros(self.num_envs, 2), self.uniform(1, 0.0, 50.0)], dim=1)

    def advance(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states after a step, the rewards, and False: no episode terminates.

        The step is semi-implicit Euler: the new heading moves the car.
        """
        offset, heading, position = state.unbind(1)
        # The values are in the order of ``dynamics_names``.
        speed, noise = self.dynamics.values()
        action_noise = noise * torch.randn(len(state), generator=self.generator)
        distance = speed * self.seconds
        turn = action[:, 0].clamp(*self.action) + action_noise - curvature(position)
        heading = (heading + distance * turn).clamp(-1.2, 1.2)
        offset = (offset + distance * heading.sin()).clamp(-3.0, 3.0)
        next_state = torch.stack([offset, heading, position + distance], dim=1)
        return next_state, 1 - offset.abs(), torch.zeros_like(offset, dtype=torch.bool)

    def observe(self, state: Tensor) -> Tensor:
        """Return ``y``, ``h`` and ``k(s)``, ``[N, 3]``."""
        offset, heading, position = state.unbind(1)
        return torch.stack([offset, heading, curvature(position)], dim=1)

    def observations(self, state: Tensor) -> dict[str, Tensor]:
        """Return ``observation`` and ``off_road``."""
        off_road = (state[:, :1].abs() > 1).float()
        return {"observation": self.observe(state), "off_road": off_road}


def curvature(position: Tensor) -> Tensor:
    """Return the curvature of the road at a position, in radians per unit of length.

    Examples:
        >>> curvature(torch.tensor([0.0]))  # 0.2 sin 1
        tensor([0.1683])
    """
    return 0.4 * (0.35 * position).sin() + 0.2 * (0.9 * position + 1.0).sin()


class TrackDriver(Component):
    """Expert that steers to the middle of the road: ``u = clip(k - y - 2 h, -2, 2)``.

    ``u`` is the action, ``y`` the offset from the middle in half widths of the road, ``h`` the
    heading relative to the road (radians) and ``k`` the curvature of the road, as in
    :class:`components.worlds.track.environment.Track`.

    Reads ``observation`` ``[N, 3]``: ``y``, ``h`` and ``k``. Writes ``action`` ``[N, 1]``: ``u``.
    """

    reads = ("observation",)
    writes = ("action",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the action."""
        offset, heading, curvature = batch["observation"].split(1, dim=-1)
        batch["action"] = (curvature - offset - 2 * heading).clamp(-2.0, 2.0)
        return batch
