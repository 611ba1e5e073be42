"""Clipped length reward, which grows with the response length up to a bound."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.reward import write_reward


class Length(Component):
    """Clipped length reward.

    ``R = clip(tokens / target, low, high)`` with ``tokens`` of the response, EOS included.

    Reads ``response_mask`` ``[B, T]``. Writes ``reward``, float32 ``[B]``, ``rewards``
    (``{"length": [B]}``), ``correct`` (the upper bound is reached) and ``reward_valid``, always
    True. Records the metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        target: number of tokens with reward 1.
        low: lowest reward.
        high: highest reward.

    Raises:
        ConfigError: ``low`` is not below ``high``.

    Source:
        He et al. 2025, arXiv:2508.07768 (``target`` = 140).
    """

    reads = ("response_mask",)
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    is_free = True

    def __init__(self, *, target: PositiveFloat, low: float = 0.0, high: float = 1.0) -> None:
        super().__init__()
        if not low < high:
            raise ConfigError(f"Length: low is {low:g}: must be below high, {high:g}")
        self.target = target
        self.low = low
        self.high = high

    def forward(self, batch: TensorDict) -> TensorDict:
        """Count the tokens of every response."""
        tokens = batch["response_mask"].sum(1)
        reward = (tokens.float() / self.target).clamp(self.low, self.high)
        at_most = reward >= self.high
        return write_reward(
            batch, reward, {"length": reward}, at_most, torch.ones_like(at_most), decides=False
        )
