"""Gaussian noise on continuous actions."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torchrl.envs import EnvBase

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.seed import new_generator


class GaussianExploration(Component):
    """Gaussian noise: ``a <- clip(a + scale (high - low) / 2 n, low, high)``, ``n ~ N(0, 1)``.

    Reads and writes ``action`` ``[N, A]``.

    Args:
        environment: the environment, for the bounds of actions.
        scale: standard deviation, in units of half of the actions' range.

    Source:
        Fujimoto et al. 2018, arXiv:1802.09477, section 6.1 (there 0.1).
    """

    reads = ("action",)
    writes = ("action",)

    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, *, environment: EnvBase, scale: PositiveFloat = 0.1) -> None:
        super().__init__()
        space = environment.action_spec_unbatched.space
        self.scale = scale
        self.register_buffer("low", space.low.clone(), persistent=False)
        self.register_buffer("high", space.high.clone(), persistent=False)
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the noise."""
        action = batch["action"]
        noise = torch.randn(action.shape, generator=self.generator)
        moved = action + self.scale * 0.5 * (self.high - self.low) * noise
        batch["action"] = torch.minimum(torch.maximum(moved, self.low), self.high)
        return batch
