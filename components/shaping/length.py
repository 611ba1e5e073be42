"""Shaping by the length of a response.

Each part records ``reward/<part>`` and ``reward/shaped``
(:func:`rlcomp.interfaces.stages.write_shaped_reward`).
"""

from __future__ import annotations

from typing import Annotated

from tensordict import TensorDict

from rlcomp.arguments import Le, NonNegativeFloat, PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.functional.length import (
    cosine_length,
    kimi_length,
    l1_exact,
    l1_max,
    soft_overlong,
    stop_properly,
)
from rlcomp.interfaces.stages import response_length, write_shaped_reward
from rlcomp.metrics import progress


class CosineLength(Component):
    """Cosine length reward: more for shorter right answers and for longer wrong ones.

    ``R <- r_L + (r_0 - r_L) (1 + cos(pi L / L_max)) / 2`` with ``r_0``, ``r_L`` = ``right_start``,
    ``right_end`` for correct responses, and ``wrong_start``, ``wrong_end`` for wrong responses;
    ``R <- exceeded`` for ``L >= L_max`` = ``max_length``.

    Reads ``reward``, ``reward_valid``, ``correct`` ``[B]``, ``rewards``, ``response_mask``
    ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``cosine_length`` of ``rewards``.

    Args:
        max_length: least number of tokens of a response that is too long; usually the length limit.
        right_start: reward of a right answer without tokens.
        right_end: reward of a right answer just below ``max_length``.
        wrong_start: reward of a wrong answer without tokens.
        wrong_end: reward of a wrong answer just below ``max_length``.
        exceeded: reward of an answer of ``max_length`` or more tokens, right or wrong.

    Source:
        Yeo et al. 2025, arXiv:2502.03373, eq. 1 and 2, with the paper's values as defaults.
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


class KimiLength(Component):
    """Kimi k1.5's length reward.

    ``R <- R + weight * lambda`` for correct responses, ``R <- R + weight * min(0, lambda)`` for
    wrong responses, with ``lambda = 0.5 - (L - L_min) / (L_max - L_min)`` in the group;
    ``lambda = 0`` if all lengths are equal.

    The weight grows linearly from 0 over the first part of the phase, so that accuracy comes before
    length.

    Reads ``reward``, ``reward_valid``, ``correct``, ``group_id`` ``[B]``, ``rewards``,
    ``response_mask`` ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``kimi_length`` of
    ``rewards`` (weighted).

    Args:
        weight: difference between the length rewards of the shortest and the longest right answer
            of a group, in reward units.
        warm_up: share of the phase in which the weight grows from 0; 0: no warm-up.

    Source:
        Kimi team 2025, arXiv:2501.12599, section 2.3.3.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "group_id", "response_mask")
    writes = ("reward", "rewards")
    min_group_size = 2

    def __init__(self, *, weight: NonNegativeFloat = 0.5, warm_up: Probability = 0.2) -> None:
        super().__init__()
        self.weight = weight
        self.warm_up = warm_up

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the weighted length reward."""
        length, valid = response_length(batch), batch["reward_valid"]
        score = kimi_length(length, batch["correct"], batch["group_id"], valid)
        part = self._weight() * score
        return write_shaped_reward(batch, "kimi_length", part, batch["reward"] + part)

    def _weight(self) -> float:
        """Return the weight at this point of the phase."""
        if self.warm_up == 0:
            return self.weight
        return self.weight * min(1.0, progress() / self.warm_up)


class L1Exact(Component):
    """L1's LCPO-Exact reward.

    ``R = 1[correct] - alpha * |L* - L|`` with ``L*`` = ``target_length``; wrong responses are
    penalised too.

    State the target in the prompt (``task.prompt_template``).

    Reads ``reward``, ``reward_valid``, ``correct`` ``[B]``, ``rewards``, ``response_mask``
    ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``l1_exact`` of ``rewards``.

    Args:
        target_length: target number of tokens.
        alpha: penalty per token, in reward units.

    Source:
        Aggarwal and Welleck 2025 (LCPO-Exact), arXiv:2503.04697, eq. 1.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "response_mask")
    writes = ("reward", "rewards")

    def __init__(self, *, target_length: PositiveInt, alpha: NonNegativeFloat = 3e-4) -> None:
        super().__init__()
        self.target_length = target_length
        self.alpha = alpha

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reward."""
        length = response_length(batch)
        reward = l1_exact(length, batch["correct"], self.target_length, self.alpha)
        return write_shaped_reward(batch, "l1_exact", reward, reward)


class L1Max(Component):
    """L1's LCPO-Max reward.

    ``R = 1[correct] * clip(alpha * (L* - L) + delta, 0, 1)`` with ``L*`` = ``target_length``.

    State the target in the prompt (``task.prompt_template``). A correct response that is
    ``delta / alpha`` tokens too long gets 0, like a wrong one.

    Reads ``reward``, ``reward_valid``, ``correct`` ``[B]``, ``rewards``, ``response_mask``
    ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``l1_max`` of ``rewards``.

    Args:
        target_length: target number of tokens.
        alpha: penalty per token, in reward units.
        delta: reward of a right answer of the target length, in reward units.

    Source:
        Aggarwal and Welleck 2025 (LCPO-Max), arXiv:2503.04697, eq. 2.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "response_mask")
    writes = ("reward", "rewards")

    def __init__(
        self,
        *,
        target_length: PositiveInt,
        alpha: NonNegativeFloat = 3e-4,
        delta: Probability = 0.5,
    ) -> None:
        super().__init__()
        self.target_length = target_length
        self.alpha = alpha
        self.delta = delta

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reward."""
        length = response_length(batch)
        reward = l1_max(length, batch["correct"], self.target_length, self.alpha, self.delta)
        return write_shaped_reward(batch, "l1_max", reward, reward)


class SoftOverlong(Component):
    """DAPO's soft overlong punishment.

    ``R <- R + factor * clip((L_max - L_cache - L) / L_cache, -1, 0)`` with ``L_max`` =
    ``max_length`` and ``L_cache`` = ``buffer``.

    Correct and wrong responses are penalised alike.

    Reads ``reward``, ``reward_valid`` ``[B]``, ``rewards``, ``response_mask`` ``[B, T]``. Writes
    ``reward`` ``[B]`` and the part ``soft_overlong`` of ``rewards``.

    Args:
        max_length: least number of tokens with the full penalty; usually the length limit.
        buffer: number of tokens before ``max_length`` over which the penalty grows from 0; at most
            ``max_length``.
        factor: the full penalty, in reward units.

    Raises:
        ConfigError: ``buffer`` exceeds ``max_length``: an empty answer would be penalised.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, eq. 13, with ``max_length`` 20480, ``buffer`` 4096
        and ``factor`` 1.
    """

    reads = ("reward", "rewards", "reward_valid", "response_mask")
    writes = ("reward", "rewards")

    def __init__(
        self, *, max_length: PositiveInt, buffer: PositiveInt, factor: NonNegativeFloat = 1.0
    ) -> None:
        super().__init__()
        if buffer > max_length:
            raise ConfigError(
                f"SoftOverlong: buffer is {buffer} and max_length is {max_length}: even an empty "
                f"answer would have a penalty; set buffer to at most {max_length}"
            )
        self.max_length = max_length
        self.buffer = buffer
        self.factor = factor

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the penalty."""
        length = response_length(batch)
        penalty = soft_overlong(length, self.max_length, self.buffer, self.factor)
        return write_shaped_reward(batch, "soft_overlong", penalty, batch["reward"] + penalty)


class StopProperly(Component):
    """Stop-properly penalty (ProRL).

    For truncated responses ``R <- coef * R`` if ``coef >= 0``, else ``R <- coef``.

    Scaling a negative reward makes it smaller: with rewards -1 and 1 use a negative ``coef``.

    Reads ``reward``, ``reward_valid``, ``truncated`` ``[B]``, ``rewards``. Writes ``reward``
    ``[B]`` and the part ``stop_properly`` of ``rewards``, the change.

    Args:
        coef: at least 0: factor of the reward of truncated responses, at most 1. Below 0: their
            reward.

    Source:
        Liu et al. 2025 (ProRL), arXiv:2505.24864.
    """

    reads = ("reward", "rewards", "reward_valid", "truncated")
    writes = ("reward", "rewards")

    def __init__(self, *, coef: Annotated[float, Le(1)] = 0.0) -> None:
        super().__init__()
        self.coef = coef

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reward."""
        reward = stop_properly(batch["reward"], batch["truncated"], self.coef)
        return write_shaped_reward(batch, "stop_properly", reward - batch["reward"], reward)
