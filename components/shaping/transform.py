"""Transforms of rewards: running normalisation, noise, permutation.

The first two record ``reward/<part>`` and ``reward/shaped``
(:func:`rlcomp.interfaces.stages.write_shaped_reward`).
"""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.moments import merged_moments, running_std
from rlcomp.interfaces.reward import shuffle_rewards
from rlcomp.interfaces.stages import write_shaped_reward
from rlcomp.metrics import record
from rlcomp.seed import new_generator


class RunningNormalisation(Component):
    """Running normalisation: ``R <- clip((R - b) / s, -k, k)``.

    ``b`` and ``s`` are mean and standard deviation (without Bessel's correction) of all valid
    rewards of the training so far, including this batch. It serves scores of a reward model, whose
    level and scale have no meaning, together with a KL penalty or a critic. It does not change an
    advantage that divides by the standard deviation of the group.

    Reads ``reward``, ``rewards``, ``reward_valid`` ``[B]``. Writes ``reward`` and the part
    ``normalised`` of ``rewards`` ``[B]``, the change. Records ``reward/running_mean`` and
    ``reward/running_std``, in units of the original reward.

    Args:
        clip: k, in standard deviations; null: no clipping.

    Source:
        Engstrom et al. 2020, "Implementation matters in deep policy gradients", arXiv:2005.12729;
        moments: Chan et al. 1983.
    """

    reads = ("reward", "rewards", "reward_valid")
    writes = ("reward", "rewards")

    # Moments of the rewards so far: count, mean, sum of squared distances from the mean.
    count: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(self, *, clip: PositiveFloat | None = 5.0) -> None:
        super().__init__()
        self.clip = clip
        for name in ("count", "mean", "squares"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the rewards to the statistics and normalise with them."""
        reward, valid = batch["reward"], batch["reward_valid"]
        buffers = self.count, self.mean, self.squares
        moments = merged_moments(*buffers, reward[valid].double())
        for buffer, moment in zip(buffers, moments, strict=True):
            buffer.copy_(moment)
        std = running_std(*moments)
        record("reward/running_mean", float(self.mean))
        # The std of equal rewards is infinite as a divisor (running_std), but 0 as a metric.
        record("reward/running_std", float(std.nan_to_num(posinf=0.0)))
        dtype = torch.promote_types(reward.dtype, torch.float32)
        scaled = ((reward.double() - self.mean) / std).to(dtype)
        if self.clip is not None:
            scaled = scaled.clamp(-self.clip, self.clip)
        return write_shaped_reward(batch, "normalised", scaled - reward, scaled)


class RaterNoise(Component):
    """Simulated rater: ``R <- R + temperature * g`` with standard Gumbel noise ``g``.

    Then the better of two answers, with ``R_w`` against ``R_l``, has the higher reward with
    probability ``sigmoid((R_w - R_l) / temperature)`` (Bradley-Terry), and the order of several
    answers is a draw of the Plackett-Luce model. Equal answers to one prompt get the same noise.

    Reads ``reward``, ``rewards``, ``reward_valid``, ``group_id`` ``[B]``, ``response`` ``[B, W]``.
    Writes ``reward`` and the part ``rater_noise`` of ``rewards`` ``[B]``, in reward units.

    Args:
        temperature: scale of the noise, in reward units. For a difference of rewards of this size
            the better answer has the higher reward in 73 % of all pairs.

    Source:
        Yellott 1977, Journal of Mathematical Psychology 15(2): Gumbel noise and Luce's axiom.
    """

    reads = ("reward", "rewards", "reward_valid", "group_id", "response")
    writes = ("reward", "rewards")

    def __init__(self, *, temperature: PositiveFloat = 0.2) -> None:
        super().__init__()
        self.temperature = temperature
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the noise."""
        reward = batch["reward"]
        answer = torch.cat([batch["group_id"][:, None], batch["response"].long()], 1)
        _, answer_index = answer.unique(dim=0, return_inverse=True)  # type: ignore[no-untyped-call]
        # A Gumbel variable is -log of an exponential variable, which is not 0 in float64.
        draws = torch.empty(reward.shape, dtype=torch.float64)
        draws.exponential_(generator=self.generator)
        noise = (-self.temperature * draws.log()).to(reward)[answer_index]
        return write_shaped_reward(batch, "rater_noise", noise, reward + noise)


class ShuffledShaping(Component):
    """Control that permutes the entries of a reward over the valid rows.

    ``reward``, ``rewards`` and ``correct`` are permuted together, so that none of them carries a
    signal. Rewards of tokens and turns and scores of steps do not change, so that this is no
    control for an advantage that reads them. ``reward=shuffled`` replaces the reward of a recipe
    instead; this stage keeps it. Evaluators run the reward itself and get the true values.

    Reads and writes ``reward``, ``rewards``, ``correct`` ``[B]``; reads ``reward_valid`` ``[B]``.
    """

    reads = ("reward", "rewards", "correct", "reward_valid")
    writes = ("reward", "rewards", "correct")

    def __init__(self) -> None:
        super().__init__()
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Permute the values."""
        shuffle_rewards(batch, batch, self.generator)
        return batch
