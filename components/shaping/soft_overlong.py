"""DAPO's soft overlong punishment."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveInt
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.functional.length import soft_overlong
from rlcomp.interfaces.shaping import response_length, write_shaped_reward


class SoftOverlong(Component):
    """DAPO's soft overlong punishment.

    ``R <- R + factor * clip((L_max - L_cache - L) / L_cache, -1, 0)`` with ``L_max`` =
    ``max_length`` and ``L_cache`` = ``buffer``.

    Correct and wrong responses are penalised alike.

    Reads ``reward``, ``reward_valid`` ``[B]``, ``rewards``, ``response_mask`` ``[B, T]``. Writes
    ``reward`` ``[B]`` and the part ``soft_overlong`` of ``rewards``.

    Args:
        max_length: tokens of a response with the full penalty: usually the limit.
        buffer: number of tokens before that over which it grows; at most ``max_length``.
        factor: the full penalty, in reward units.

    Raises:
        ConfigError: ``buffer`` exceeds ``max_length``: an empty answer would be penalised.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, eq. 13; there 20480, 4096 and 1.
    """

    reads = ("reward", "rewards", "reward_valid", "response_mask")
    writes = ("reward", "rewards")

    def __init__(
        self, *, max_length: PositiveInt, buffer: PositiveInt, factor: NonNegativeFloat = 1.0
    ) -> None:
        super().__init__()
        if buffer > max_length:
            raise ConfigError(
                f"SoftOverlong: buffer is {buffer}, max_length {max_length}: even an empty answer "
                f"would pay; set buffer to at most {max_length}"
            )
        self.max_length = max_length
        self.buffer = buffer
        self.factor = factor

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the penalty."""
        length = response_length(batch)
        penalty = soft_overlong(length, self.max_length, self.buffer, self.factor)
        return write_shaped_reward(batch, "soft_overlong", penalty, batch["reward"] + penalty)
