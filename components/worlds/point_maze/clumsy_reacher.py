"""Noisy expert for the environment ``reach``, which an imitating policy can surpass."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Checked, NonNegativeFloat, PositiveFloat
from rlcomp.model.action_tokens import ActionTokenPolicy


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

    def act(self, seen: TensorDict, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Return the tokens ``[N, D + A]`` of a step and log-probs ``[N, A]`` of 0.

        Args:
            seen: ``observation`` and ``desired_goal``, ``[N, 2]`` each.
            generator: generator of the noise; None: no noise.
        """
        action = self.gain * (seen["desired_goal"] - seen["observation"]) / self.stride
        if generator is not None:
            action = action + self.noise * torch.randn(action.shape, generator=generator)
        tokens = torch.cat(
            [self.policy.encode_observation(seen), self.policy.encode_action(action)], dim=1
        )
        return tokens, torch.zeros_like(action)

    def decode_action(self, tokens: Tensor) -> Tensor:
        """Return the action ``[N, A]`` of the tokens of a step."""
        return self.policy.decode_action(tokens)
