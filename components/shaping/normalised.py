"""Running normalisation of rewards."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.running_moments import merged_moments, running_std
from rlcomp.interfaces.shaping import write_shaped_reward
from rlcomp.metrics import record


class Normalised(Component):
    """Running normalisation: ``R <- clip((R - b) / s, -k, k)``.

    ``b`` and ``s`` are mean and standard deviation (without Bessel's correction) of all valid
    rewards of training so far, those of this batch among them. For the scores of a reward model,
    whose level and scale mean nothing, where a KL penalty or a critic is weighed against them: a
    group baseline in standard deviations is not changed by it.

    Reads ``reward``, ``rewards``, ``reward_valid`` ``[B]``. Writes ``reward`` and the part
    ``normalised`` of ``rewards`` ``[B]``, what was added. Records ``reward/running_mean`` and
    ``reward/running_std``, in units of the reward that was given.

    Args:
        clip: k, in standard deviations; null for none.

    Source:
        Engstrom et al. 2020, "Implementation matters in deep policy gradients", arXiv:2005.12729;
        moments: Chan et al. 1983.
    """

    reads = ("reward", "rewards", "reward_valid")
    writes = ("reward", "rewards")

    count: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(self, *, clip: PositiveFloat | None = 5.0) -> None:
        super().__init__()
        self.clip = clip
        for name in ("count", "mean", "squares"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Take the rewards into the statistics, and apply these."""
        reward, valid = batch["reward"], batch["reward_valid"]
        seen = self.count, self.mean, self.squares
        found = merged_moments(*seen, reward[valid].double())
        for held, new in zip(seen, found, strict=True):
            held.copy_(new)
        std = running_std(*found)
        record("reward/running_mean", float(self.mean))
        record("reward/running_std", float(std.nan_to_num(posinf=0.0)))
        wide = torch.promote_types(reward.dtype, torch.float32)
        scaled = ((reward.double() - self.mean) / std).to(wide)
        if self.clip is not None:
            scaled = scaled.clamp(-self.clip, self.clip)
        return write_shaped_reward(batch, "normalised", scaled - reward, scaled)
