"""Diffusion policy: an action is denoised step by step."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchrl.envs import EnvBase
from torchrl.modules import MLP, DiffusionActor

from rlcomp.arguments import PositiveInt
from rlcomp.model.continuous_control import bounded_actions
from rlcomp.model.control import observed_size


class ScaledTime(nn.Module):
    """Noise predictor that reads the step as a share of all steps, in [0, 1).

    Args:
        network: of the concatenated noisy action, observation and step.
        num_steps: of the diffusion.
    """

    def __init__(self, network: nn.Module, num_steps: int) -> None:
        super().__init__()
        self.network = network
        self.num_steps = num_steps

    def forward(self, inputs: Tensor) -> Tensor:
        """Predict the noise, ``[..., A]``."""
        scaled = torch.cat([inputs[..., :-1], inputs[..., -1:] / self.num_steps], dim=-1)
        noise: Tensor = self.network(scaled)
        return noise


def diffusion_actor(
    *, environment: EnvBase, num_cells: list[PositiveInt], num_steps: PositiveInt = 40
) -> DiffusionActor:
    """Create a diffusion policy (DDPM) over bounded vectors of actions, of torchrl.

    Reads ``observation``. Writes ``action`` ``[N, A]``, in the environment's units; the environment
    clips it at its bounds. A greedy action starts from zeros and draws nothing. The total noise
    equals that of the paper's 1,000 steps, so that nearly nothing of the action is left at the last
    one (torchrl's own default of 100 steps leaves a third of its variance).

    Args:
        environment: defines the observations and the size of an action.
        num_cells: width of each hidden layer (SiLU).
        num_steps: steps of noise; each is a pass of the network.

    Raises:
        ConfigError: the actions are not bounded vectors, or the observation is no vector.

    Source:
        Ho et al. 2020, arXiv:2006.11239; Chi et al. 2023, arXiv:2303.04137.
    """
    size, observed = bounded_actions(environment).shape[-1], observed_size(environment)
    network = MLP(
        in_features=size + observed + 1,
        out_features=size,
        num_cells=num_cells,
        activation_class=nn.SiLU,
    )
    # The betas have the sum of 1,000 steps from 1e-4 to .02, about 10: exp(-10) is left.
    return DiffusionActor(
        action_dim=size,
        score_network=ScaledTime(network, num_steps),
        num_steps=num_steps,
        beta_start=0.1 / num_steps,
        beta_end=min(20.0 / num_steps, 0.999),
    )
