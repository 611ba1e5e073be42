"""Actors over continuous actions: Gaussian (SAC), deterministic (TD3), uniform, diffusion."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal

import torch
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torch import Tensor, nn
from torchrl.data import TensorSpec
from torchrl.envs import EnvBase
from torchrl.modules import MLP, DiffusionActor, ProbabilisticActor, TanhNormal

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.model.control import bounded_actions, observed_size

# Bounds of the natural log of the standard deviation.
_LOG_SCALE = (-5.0, 2.0)


class GaussianHead(nn.Module):
    """Head of a Gaussian; ``log s = low + (high - low) (tanh x + 1) / 2``, in [-5, 2].

    Args:
        network: network with ``2 A`` outputs.

    Source:
        Haarnoja et al. 2018, arXiv:1812.05905, appendix C; the smooth bound comes from successors
        of its code.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Compute ``loc`` and ``scale``, ``[N, A]`` each."""
        loc, raw = self.network(*inputs).chunk(2, dim=-1)
        low, high = _LOG_SCALE
        return loc, (low + 0.5 * (high - low) * (raw.tanh() + 1)).exp()


class BoundedHead(nn.Module):
    """Deterministic head ``low + (high - low) (tanh x + 1) / 2``.

    Args:
        network: network with ``A`` outputs.
        low: least action, ``[A]``.
        high: greatest action, ``[A]``.
    """

    low: Tensor
    high: Tensor

    def __init__(self, network: nn.Module, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("low", low)
        self.register_buffer("high", high)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute the action, ``[N, A]``."""
        squashed = self.network(*inputs).tanh()
        action: Tensor = self.low + 0.5 * (self.high - self.low) * (squashed + 1)
        return action


class UniformHead(nn.Module):
    """Head that draws actions uniformly, independent of its input.

    Args:
        spec: spec of the action of one copy of the environment.
    """

    def __init__(self, spec: TensorSpec) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, observation: Tensor) -> Tensor:
        """Draw the action, ``[N, A]``, or ``[N]`` for discrete ones."""
        drawn: Tensor = self.spec.rand(observation.shape[:-1])
        return drawn


def gaussian_actor(
    *, environment: EnvBase, num_cells: list[PositiveInt], inputs: list[NonEmptyText]
) -> ProbabilisticActor:
    """Create a squashed Gaussian policy: ``a = low + (high - low) (tanh u + 1) / 2``, ``u ~ N``.

    The policy of SAC. Reads ``inputs``. Writes ``loc``, ``scale`` and ``action``, ``[N, A]`` each.
    The log-prob refers to the scaled action, in the environment's units.

    Args:
        environment: defines the observations, and the bounds of its actions.
        num_cells: width of each hidden layer.
        inputs: names of the observed vectors that the policy reads.

    Raises:
        ConfigError: the actions are not bounded vectors, or an input is no vector.
    """
    network = functools.partial(MLP, num_cells=num_cells, activation_class=nn.ReLU)
    return gaussian_network_actor(environment=environment, inputs=inputs, network=network)


def gaussian_network_actor(
    *, environment: EnvBase, inputs: list[NonEmptyText], network: Callable[..., nn.Module]
) -> ProbabilisticActor:
    """Create a squashed Gaussian policy on any network; otherwise like :func:`gaussian_actor`.

    Args:
        environment: defines the observations, and the bounds of its actions.
        inputs: names of the observed vectors that the policy reads.
        network: called with ``in_features`` and ``out_features``; the network takes each input as
            an argument of its own.

    Raises:
        ConfigError: the actions are not bounded vectors, or an input is no vector.
    """
    spec = bounded_actions(environment)
    size = sum(observed_size(environment, key) for key in inputs)
    head = GaussianHead(network(in_features=size, out_features=2 * spec.shape[-1]))
    return ProbabilisticActor(
        TensorDictModule(head, in_keys=inputs, out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": spec.space.low, "high": spec.space.high},
    )


def deterministic_actor(
    *,
    environment: EnvBase,
    num_cells: list[PositiveInt],
    inputs: list[NonEmptyText],
    activation: Literal["relu", "tanh"] = "relu",
) -> TensorDictModule:
    """Create a deterministic policy (TD3): ``a = low + (high - low) (tanh f(s) + 1) / 2``.

    Reads ``inputs``. Writes ``action`` ``[N, A]``.

    Args:
        environment: defines the observations, and the bounds of its actions.
        num_cells: width of each hidden layer.
        inputs: names of the observed vectors that the policy reads.
        activation: activation of the hidden layers.

    Raises:
        ConfigError: the actions are not bounded vectors, or an input is no vector.
    """
    spec = bounded_actions(environment)
    network = MLP(
        in_features=sum(observed_size(environment, key) for key in inputs),
        out_features=spec.shape[-1],
        num_cells=num_cells,
        activation_class={"relu": nn.ReLU, "tanh": nn.Tanh}[activation],
    )
    head = BoundedHead(network, spec.space.low, spec.space.high)
    return TensorDictModule(head, in_keys=inputs, out_keys=["action"])


def uniform_actor(*, environment: EnvBase) -> TensorDictModuleBase:
    """Create a policy of uniformly random actions, continuous or discrete, for a warm-up.

    Reads ``observation``. Writes ``action``.

    Args:
        environment: defines the actions.
    """
    head = UniformHead(environment.action_spec_unbatched)
    return TensorDictModule(head, in_keys=["observation"], out_keys=["action"])


class ScaledTime(nn.Module):
    """Noise predictor with the diffusion step scaled to [0, 1).

    Args:
        network: function of the concatenated noisy action, observation and scaled step.
        num_steps: number of diffusion steps.
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
    """Create torchrl's diffusion policy (DDPM) over bounded vectors of actions.

    Reads ``observation``. Writes ``action`` ``[N, A]``, in the environment's units; the environment
    clips the action at its bounds. A greedy action starts from zeros and draws nothing. The betas
    have the same sum as the paper's 1,000 steps, so that the last step leaves nearly nothing of the
    action (torchrl's default of 100 steps leaves a third of the action's variance).

    Args:
        environment: defines the observations and the size of an action.
        num_cells: width of each hidden layer (SiLU).
        num_steps: steps of noise; each is a forward pass.

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
