"""Cosine length reward."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.functional.length import cosine_length
from rlcomp.interfaces.shaping import response_length, write_shaped_reward


class CosineLength(Component):
    """Cosine length reward: more for shorter right answers and for longer wrong ones.

    ``R <- r_L + (r_0 - r_L) (1 + cos(pi L / L_max)) / 2`` with ``r_0``, ``r_L`` = ``right_start``,
    ``right_end`` for correct responses, ``wrong_start``, ``wrong_end`` for the others; ``exceeded``
    from ``L_max`` = ``max_length`` on.

    Reads ``reward``, ``reward_valid``, ``correct`` ``[B]``, ``rewards``, ``response_mask``
    ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``cosine_length`` of ``rewards``.

    Args:
        max_length: least tokens of a response that is too long: usually the limit.
        right_start: reward of a right answer without tokens.
        right_end: reward of a right answer just below ``max_length``.
        wrong_start: reward of a wrong answer without tokens.
        wrong_end: reward of a wrong answer just below ``max_length``.
        exceeded: reward of an answer of ``max_length`` or more tokens, right or wrong.

    Source:
        Yeo et al. 2025, arXiv:2502.03373, eq. 1 and 2; the defaults are theirs.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "response_mask")
    writes = ("reward", "rewards")

    def __init__(
        self,
        *,
        max_length: PositiveInt,
        right_start: float = 2.0,
        right_end: float = 1.0,
        wrong_start: float = -10.0,
        wrong_end: float = 0.0,
        exceeded: float = -10.0,
    ) -> None:
        super().__init__()
        self.max_length = max_length
        self.right_start = right_start
        self.right_end = right_end
        self.wrong_start = wrong_start
        self.wrong_end = wrong_end
        self.exceeded = exceeded

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reward."""
        reward = cosine_length(
            response_length(batch),
            batch["correct"] & batch["reward_valid"],
            self.max_length,
            right=(self.right_start, self.right_end),
            wrong=(self.wrong_start, self.wrong_end),
            exceeded=self.exceeded,
        )
        return write_shaped_reward(batch, "cosine_length", reward, reward)
