"""Experts of the point mazes."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Checked, NonNegativeFloat, PositiveFloat
from rlcomp.component import Component
from rlcomp.interfaces.batched_environment import HasWall
from rlcomp.model.action_tokens import ActionTokenPolicy

# Distance between the end of the wall and the point at which the expert turns.
_MARGIN = 0.1


class UMazeGuide(Component):
    """Expert that moves straight to the goal, or first to the end of a wall between them.

    Reads ``observation`` and ``desired_goal`` ``[N, 2]``. Writes ``action`` ``[N, 2]``.

    Args:
        environment: the maze.
    """

    reads = ("observation", "desired_goal")
    writes = ("action",)

    def __init__(self, *, environment: HasWall) -> None:
        super().__init__()
        # Bypass nn.Module, because the environment is another node's submodule.
        object.__setattr__(self, "environment", environment)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the action."""
        point, goal = batch["observation"], batch["desired_goal"]
        corner = point.new_tensor([self.environment.wall + _MARGIN, 0.0])
        is_blocked = self.environment.blocked(point, goal)[:, None]
        offset = torch.where(is_blocked, corner, goal) - point
        batch["action"] = (offset / self.environment.stride).clamp(-1.0, 1.0)
        return batch

    def distance_to_goal(self, batch: TensorDict) -> Tensor:
        """Return the length of the path to the goal, ``[N]``."""
        length: Tensor = self.environment.path_length(batch["observation"], batch["desired_goal"])
        return length


class ClumsyReacher(metaclass=Checked):
    """Noisy expert ``a = gain (g - x) / stride + noise n``, ``n ~ N(0, I)``.

    ``x`` is the point and ``g`` the goal, ``[N, 2]`` each. The tokenizer of the policy that
    imitates the expert clips and discretises the action ``a``. The expert's log-probs are 0,
    because imitation does not reweight them.

    Args:
        policy: the policy whose tokens the actions are written in.
        stride: largest move of a step, for each coordinate.
        gain: share of the remaining distance that a step moves without noise.
        noise: standard deviation of the noise on an action, in units of its bound.
    """

    def __init__(
        self,
        *,
        policy: ActionTokenPolicy,
        stride: PositiveFloat,
        gain: PositiveFloat = 0.2,
        noise: NonNegativeFloat = 0.9,
    ) -> None:
        self.policy, self.stride, self.gain, self.noise = policy, stride, gain, noise
        self.observation_size = policy.observation_size

    def act(
        self, observation: TensorDict, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Return the tokens ``[N, D + A]`` of a step and log-probs ``[N, A]`` of 0.

        Args:
            observation: ``observation`` and ``desired_goal``, ``[N, 2]`` each.
            generator: generator of the noise; None: no noise.
        """
        action = (
            self.gain * (observation["desired_goal"] - observation["observation"]) / self.stride
        )
        if generator is not None:
            action = action + self.noise * torch.randn(action.shape, generator=generator)
        tokens = torch.cat(
            [self.policy.encode_observation(observation), self.policy.encode_action(action)], dim=1
        )
        return tokens, torch.zeros_like(action)

    def decode_action(self, tokens: Tensor) -> Tensor:
        """Return the action ``[N, A]`` of the tokens of a step."""
        return self.policy.decode_action(tokens)
