"""Running normalisation of rewards."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.moments import merged_moments, running_std
from rlcomp.interfaces.stages import write_shaped_reward
from rlcomp.metrics import record


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
        record("reward/running_std", float(std.nan_to_num(posinf=0.0)))
        dtype = torch.promote_types(reward.dtype, torch.float32)
        scaled = ((reward.double() - self.mean) / std).to(dtype)
        if self.clip is not None:
            scaled = scaled.clamp(-self.clip, self.clip)
        return write_shaped_reward(batch, "normalised", scaled - reward, scaled)
