"""Samples of a flow by its ODE and its SDE, compared."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt
from rlcomp.component import Component
from rlcomp.interfaces.stages import HasModes, nearest_mode
from rlcomp.metrics import record, recording
from rlcomp.model.flow_policy import FlowPolicy


class FlowEvaluator(Component):
    """Evaluator that scores a flow's samples by its ODE and compares the SDE with them.

    Records ``evaluation/reward`` and ``evaluation/in_mode`` (share that the reward calls correct)
    of the ODE's samples, ``evaluation/sde_in_mode``, this share of the SDE's samples, and
    ``evaluation/sde_shift``: the total variation ``1/2 sum_m |p_m - q_m|`` between the shares of
    the modes under both. ``sde_shift`` must be about 0 before any training; otherwise the SDE does
    not sample the flow's distribution. Every evaluation draws the same noise.

    Args:
        policy: the flow.
        reward: the reward of ``sample``.
        distribution: the distribution with the modes.
        num_samples: number of samples of each kind.
        num_steps: steps of the ODE.
    """

    def __init__(
        self,
        *,
        policy: FlowPolicy,
        reward: Component,
        distribution: HasModes,
        num_samples: PositiveInt = 2000,
        num_steps: PositiveInt = 50,
    ) -> None:
        super().__init__()
        self.policy = policy
        self.reward = reward
        self.distribution = distribution
        self.num_samples = num_samples
        self.num_steps = num_steps
        self.seed = torch.initial_seed()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Evaluate and record; ignores the training batch."""
        generator = torch.Generator().manual_seed(self.seed)
        by_ode = self.policy.flow(self.num_samples, self.num_steps, generator)
        # The SDE gives the states of the whole path; the last one is the sample.
        by_sde = self.policy.draw(self.num_samples, generator)[0][:, -1]
        scored = self._score(by_ode)
        record("evaluation/reward", scored["reward"], where=scored["reward_valid"])
        record("evaluation/in_mode", scored["correct"])
        record("evaluation/sde_in_mode", self._score(by_sde)["correct"])
        centres = self.distribution.centres
        record("evaluation/sde_shift", total_variation(by_ode, by_sde, centres))
        return batch

    def _score(self, points: Tensor) -> TensorDict:
        with recording():  # drop the reward's metrics: they are for training
            return self.reward(TensorDict({"sample": points}, batch_size=[len(points)]))


def total_variation(first: Tensor, second: Tensor, centres: Tensor) -> float:
    """Return ``1/2 sum_m |p_m - q_m|`` between the shares of points nearest to each mode.

    Args:
        first: points, shape ``[B, D]``.
        second: points, shape ``[C, D]``.
        centres: the modes, shape ``[M, D]``.

    Examples:
        >>> centres = torch.tensor([[0.0], [1.0]])
        >>> total_variation(torch.tensor([[0.1], [0.9]]), torch.tensor([[0.0]]), centres)
        0.5
    """
    shares = [
        torch.bincount(nearest_mode(points, centres), minlength=len(centres)) / len(points)
        for points in (first, second)
    ]
    return float(0.5 * (shares[0] - shares[1]).abs().sum())
