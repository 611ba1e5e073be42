"""MLP actors and critics for environments with vector observations."""

from __future__ import annotations

import math

from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.data import Categorical as CategoricalSpec
from torchrl.envs import EnvBase
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator

from rlcomp.arguments import PositiveInt
from rlcomp.errors import ConfigError


def actor(*, environment: EnvBase, num_cells: list[PositiveInt]) -> ProbabilisticActor:
    """Create a categorical policy (MLP) over discrete actions, nearly uniform at initialisation.

    Reads ``observation`` ``[N, D]``. Writes ``logits`` ``[N, actions]``, ``action`` and
    ``action_log_prob``, ``[N]`` each.

    Args:
        environment: defines the observations and the actions.
        num_cells: width of each hidden layer.

    Raises:
        ConfigError: the actions are not discrete, or the observation is no vector.
    """
    actions = numbered_actions(environment)
    network = TensorDictModule(
        _perceptron(observed_size(environment), actions.n, num_cells, gain=0.01),
        in_keys=["observation"],
        out_keys=["logits"],
    )
    return ProbabilisticActor(
        network,
        in_keys=["logits"],
        spec=actions,
        distribution_class=Categorical,
        return_log_prob=True,
    )


def critic(*, environment: EnvBase, num_cells: list[PositiveInt]) -> ValueOperator:
    """Create a state-value network (MLP).

    Reads ``observation`` ``[N, D]``. Writes ``state_value`` ``[N, 1]``, in reward units.

    Args:
        environment: defines the observations.
        num_cells: width of each hidden layer.

    Raises:
        ConfigError: the observation is no vector.
    """
    return ValueOperator(_perceptron(observed_size(environment), 1, num_cells, gain=1.0))


def numbered_actions(environment: EnvBase) -> CategoricalSpec:
    """Return the numbered actions of one copy of an environment.

    Raises:
        ConfigError: its actions are of another kind.
    """
    spec = environment.action_spec_unbatched
    if not isinstance(spec, CategoricalSpec):
        raise ConfigError(
            f"the environment's actions are {type(spec).__name__}, this network is for numbered "
            "ones: choose an environment with discrete actions, or recipe=sac for bounded vectors"
        )
    return spec


def observed_size(environment: EnvBase, key: str = "observation") -> int:
    """Return the size of a vector that an environment shows.

    Raises:
        ConfigError: it shows no such vector.
    """
    spec = environment.observation_spec_unbatched
    if key not in spec or len(spec[key].shape) != 1:
        shapes = {str(name): list(spec[name].shape) for name in spec}
        raise ConfigError(
            f"the environment observes {shapes}, not one vector '{key}': choose another "
            "environment, or write an actor and a critic for it"
        )
    return int(spec[key].shape[0])


def _perceptron(width: int, outputs: int, num_cells: list[int], gain: float) -> MLP:
    """Create tanh layers with orthogonal weights and zero biases; ``gain`` scales the last layer.

    Source:
        Andrychowicz et al. 2021, arXiv:2006.05990, section 3.2.
    """
    network = MLP(
        in_features=width, out_features=outputs, num_cells=num_cells, activation_class=nn.Tanh
    )
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    for layer in layers:
        nn.init.orthogonal_(layer.weight, gain if layer is layers[-1] else math.sqrt(2))
        nn.init.zeros_(layer.bias)
    return network
