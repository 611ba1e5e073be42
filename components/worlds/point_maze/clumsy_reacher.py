"""Clumsy expert for reach, to imitate and surpass."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Checked, NonNegativeFloat, PositiveFloat
from rlcomp.model.action_tokens import ActionTokenPolicy


class ClumsyReacher(metaclass=Checked):
    """Expert with ``a = clip(gain (g - x) / stride + noise n)``, ``n ~ N(0, I)``.

    Its actions are in the tokens of the policy that imitates it. Its log-probs are 0, because it is
    imitated without reweighting.

    Args:
        policy: the policy that defines the tokens.
        stride: largest move of a step, for each coordinate.
        gain: share of the remaining distance in a step.
        noise: standard deviation of the noise on its actions, in units of their bounds.
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
        self.seen_size = policy.seen_size

    def act(self, seen: TensorDict, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Return tokens ``[N, D + A]`` of a step; without a generator there is no noise."""
        action = self.gain * (seen["desired_goal"] - seen["observation"]) / self.stride
        if generator is not None:
            action = action + self.noise * torch.randn(action.shape, generator=generator)
        tokens = torch.cat([self.policy.observed(seen), self.policy.tokens_of(action)], dim=1)
        return tokens, torch.zeros_like(action)

    def action_of(self, tokens: Tensor) -> Tensor:
        """Return the action of the tokens of a step."""
        return self.policy.action_of(tokens)
