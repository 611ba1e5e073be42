"""Diffusion policy: an action is noise that is taken away step by step."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchrl.envs import EnvBase
from torchrl.modules import MLP, DiffusionActor

from rlcomp.arguments import PositiveInt
from rlcomp.model.continuous_control import bounded_actions
from rlcomp.model.control import observed_size


class ScaledTime(nn.Module):
    """Gives a noise predictor the step as a share of all, in [0, 1), instead of its number.

    Args:
        network: of the noisy action, what is seen and the step side by side.
        num_steps: of the diffusion.
    """

    def __init__(self, network: nn.Module, num_steps: int) -> None:
        super().__init__()
        self.network = network
        self.num_steps = num_steps

    def forward(self, given: Tensor) -> Tensor:
        """The noise, ``[..., A]``."""
        scaled = torch.cat([given[..., :-1], given[..., -1:] / self.num_steps], dim=-1)
        noise: Tensor = self.network(scaled)
        return noise


def diffusion_actor(
    *, environment: EnvBase, num_cells: list[PositiveInt], num_steps: PositiveInt = 40
) -> DiffusionActor:
    """Diffusion policy (DDPM) over bounded vectors of actions, of torchrl.

    Reads ``observation``. Writes ``action`` ``[N, A]``, in the environment's units; the environment
    cuts it at its bounds. Greedily it starts from zeros and draws nothing. The noise of all steps
    together is that of the paper's 1,000 steps, so that nearly nothing of the action is left at the
    last one (torchrl's own default of 100 steps leaves a third of its variance).

    Args:
        environment: says what is observed, and how many numbers an action has.
        num_cells: width of each hidden layer (SiLU).
        num_steps: steps of noise, each a pass of the network.

    Raises:
        ConfigError: the actions are not bounded vectors, or what is observed is no vector.

    Source:
        Ho et al. 2020, arXiv:2006.11239; Chi et al. 2023, arXiv:2303.04137.
    """
    size, seen = bounded_actions(environment).shape[-1], observed_size(environment)
    network = MLP(
        in_features=size + seen + 1,
        out_features=size,
        num_cells=num_cells,
        activation_class=nn.SiLU,
    )
    # The betas add up to those of 1,000 steps from 1e-4 to .02, about 10: exp(-10) is left.
    return DiffusionActor(
        action_dim=size,
        score_network=ScaledTime(network, num_steps),
        num_steps=num_steps,
        beta_start=0.1 / num_steps,
        beta_end=min(20.0 / num_steps, 0.999),
    )
