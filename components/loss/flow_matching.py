"""Flow matching: regression of the velocity of paths between data (t = 0) and noise (t = 1)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.component import Component
from rlcomp.functional.continuous_action import interpolant
from rlcomp.seed import new_generator


@runtime_checkable
class HasVelocity(Protocol):
    """Policy with a velocity ``v(x, t)``."""

    def velocity(self, state: Tensor, time: Tensor) -> Tensor:
        """Return the velocity ``[..., D]`` of states ``[..., D]`` at times ``[..., 1]``."""
        ...


class FlowMatchingLoss(Component):
    """Conditional flow matching: ``L = mean_B |v(x_t, t) - (eps - x_0)|^2``.

    ``x_t = (1 - t) x_0 + t eps``, ``t`` uniform in [0, 1), ``eps ~ N(0, I)``, drawn for each row
    and call.

    Reads ``sample`` ``[B, D]``. Writes the scalar ``loss_flow``.

    Args:
        policy: the policy whose velocity is trained.

    Source:
        Lipman et al. 2023, arXiv:2210.02747, eq. 9; Liu et al. 2022, arXiv:2209.03003, eq. 1.
    """

    keys = {"sample": ("B D", "float", "point of the data, or end point of a flow")}
    reads = ("sample",)
    equation = "L = mean_B |v((1 - t) x_0 + t eps, t) - (eps - x_0)|^2"

    policy: HasVelocity

    def __init__(self, *, policy: HasVelocity) -> None:
        super().__init__()
        assert isinstance(policy, nn.Module)
        self.policy = policy
        self.out_keys = ["loss_flow"]
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the loss, in a new TensorDict."""
        data = batch["sample"]
        noise = torch.randn(data.shape, generator=self.generator)
        time = torch.rand(len(data), 1, generator=self.generator)
        velocity = self.policy.velocity(interpolant(data, noise, time), time)
        error = (velocity - (noise - data)).square().sum(-1)
        return TensorDict({"loss_flow": error.mean()}, batch_size=[])
