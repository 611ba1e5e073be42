"""Policy that is a flow-matching sampler; its stochastic steps have log-probs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torchrl.modules import MLP

from rlcomp.arguments import PositiveFloat, PositiveInt
from rlcomp.component import Component, is_loss_input
from rlcomp.functional.continuous_action import (
    gaussian_entropy,
    gaussian_log_prob,
    sde_mean,
    sde_scale,
    sde_std,
    time_grid,
)
from rlcomp.functional.reduction import masked
from rlcomp.keys import OwnKey


class FlowPolicy(Component):
    """Policy that samples points by the SDE of a flow; each step is a Gaussian action.

    A row is a sample. Position ``k`` of a ``[B, T]`` entry is the step from time ``1 - k / T`` to
    ``1 - (k + 1) / T``, and ``tokens`` has ``k``. Losses, trust regions, references and KL of
    tokens work unchanged.

    Reads ``tokens``, ``response_mask`` ``[B, T]``, ``flow_state``, ``flow_next`` ``[B, T, D]``.
    Writes ``log_probs``, summed over the dimensions, and ``entropy``, ``[B, T]``, nats; in a
    learner ``entropy`` only if a loss reads it. (The reference code takes the mean over the
    dimensions: its ratios are the D-th roots of the ratios here.)

    Args:
        velocity: ``v(x, t)``: from ``[..., D + 1]`` to ``[..., D]``.
        size: dimensions of a point (``D``).
        num_steps: steps of the SDE (``T``).
        noise_level: ``a`` of the SDE's noise ``a sqrt(t / (1 - t))``.

    Source:
        Liu et al. 2025, arXiv:2505.05470 (Flow-GRPO), eq. 9.
    """

    keys: ClassVar[Mapping[str, OwnKey]] = {
        "flow_state": ("B T D", "float", "where a step of a flow starts"),
        "flow_next": ("B T D", "float", "where the step leads"),
    }
    reads = ("tokens", "response_mask", "flow_state", "flow_next")
    writes = ("log_probs", "entropy")

    steps_taken: Tensor  # updates of the weights, not steps of the SDE
    grid: Tensor

    def __init__(
        self,
        *,
        velocity: nn.Module,
        size: PositiveInt = 2,
        num_steps: PositiveInt = 10,
        noise_level: PositiveFloat = 0.7,
    ) -> None:
        super().__init__()
        self.velocity_net = velocity
        self.size, self.num_steps, self.noise_level = size, num_steps, noise_level
        self.register_buffer("grid", time_grid(num_steps), persistent=False)
        self.register_buffer("steps_taken", torch.zeros((), dtype=torch.int64))

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.grid.device

    @property
    def version(self) -> int:
        """Number of updates of the weights."""
        return int(self.steps_taken)

    def updated(self) -> None:
        """Count an update."""
        self.steps_taken += 1

    def weights(self) -> Mapping[str, Tensor]:
        """Return the weights of the velocity, by name."""
        return dict(self.velocity_net.named_parameters())

    def velocity(
        self, state: Tensor, time: Tensor, weights: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Compute ``v(x, t)``, shape ``[..., D]``; ``time`` is ``[..., 1]``."""
        inputs = torch.cat([state, time], dim=-1)
        parameters = self.weights() if weights is None else weights
        velocity: Tensor = torch.func.functional_call(
            self.velocity_net, dict(parameters), (inputs,)
        )
        return velocity

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the steps, with gradient."""
        batch["log_probs"] = self.log_probs(batch)
        if is_loss_input("entropy"):
            step = batch["tokens"]
            std = self._std(self.grid[step], self.grid[step + 1])
            batch["entropy"] = masked(gaussian_entropy(std, self.size), batch["response_mask"])
        return batch

    def log_probs(self, batch: TensorDict, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """Compute ``log p(x_{k+1} | x_k)``, ``[B, T]``, nats; 0 outside ``response_mask``."""
        step, mask = batch["tokens"], batch["response_mask"]
        # Masked before the network too: NaN outside the mask would reach its gradient.
        state, following = (
            masked(batch[key], mask[..., None]) for key in ("flow_state", "flow_next")
        )
        mean, std = self._step(state, self.grid[step], self.grid[step + 1], weights)
        return masked(gaussian_log_prob(following, mean, std), mask)

    @torch.no_grad()
    def draw(self, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Sample by the SDE: states ``[rows, T + 1, D]`` from noise on, log-probs ``[rows, T]``."""
        state = torch.randn(rows, self.size, generator=generator)
        states, log_probs = [state], []
        for time, after in itertools.pairwise(self.grid):
            mean, std = self._step(state, time.expand(rows), after.expand(rows), None)
            state = mean + std * torch.randn(rows, self.size, generator=generator)
            states.append(state)
            log_probs.append(gaussian_log_prob(state, mean, std))
        return torch.stack(states, dim=1), torch.stack(log_probs, dim=1)

    @torch.no_grad()
    def flow(self, rows: int, num_steps: int, generator: torch.Generator) -> Tensor:
        """Sample by the ODE in Euler steps: ``[rows, D]``."""
        state = torch.randn(rows, self.size, generator=generator)
        grid = time_grid(num_steps)
        for time, after in itertools.pairwise(grid):
            state = state + (after - time) * self.velocity(state, time.expand(rows, 1))
        return state

    def _std(self, time: Tensor, after: Tensor) -> Tensor:
        return sde_std(time, after, sde_scale(time, after, self.noise_level))

    def _step(
        self, state: Tensor, time: Tensor, after: Tensor, weights: Mapping[str, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Return mean ``[..., D]`` and standard deviation ``[..., 1]`` of the next state."""
        time, after = time[..., None], after[..., None]
        scale = sde_scale(time, after, self.noise_level)
        mean = sde_mean(state, self.velocity(state, time, weights), time, after, scale)
        return mean, sde_std(time, after, scale)


def velocity_network(*, size: PositiveInt = 2, num_cells: list[PositiveInt]) -> MLP:
    """Create ``v(x, t)``: SiLU layers over a concatenated point and time.

    Args:
        size: dimensions of a point (``D``).
        num_cells: width of each hidden layer.
    """
    return MLP(
        in_features=size + 1, out_features=size, num_cells=num_cells, activation_class=nn.SiLU
    )
