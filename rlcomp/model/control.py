"""Networks for control: specs of environments, discrete actors, and critics."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import Bounded
from torchrl.data import Categorical as CategoricalSpec
from torchrl.envs import EnvBase
from torchrl.modules import MLP, ProbabilisticActor, QValueActor, ValueOperator

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import check_arguments
from rlcomp.errors import ConfigError
from rlcomp.functional.goal_conditioned import energies


def numbered_actions(environment: EnvBase) -> CategoricalSpec:
    """Return the spec of the discrete actions of one copy of an environment.

    Raises:
        ConfigError: the actions are not discrete (torchrl's ``Categorical``).
    """
    spec = environment.action_spec_unbatched
    if not isinstance(spec, CategoricalSpec):
        raise ConfigError(
            f"the environment's actions are {type(spec).__name__}, this network is for numbered "
            "ones: choose an environment with discrete actions, or recipe=sac for bounded vectors"
        )
    return spec


def bounded_actions(environment: EnvBase) -> Bounded:
    """Return the spec of the bounded actions of one copy of an environment.

    Raises:
        ConfigError: the actions are not bounded vectors, or a lower bound is infinite.
    """
    spec = environment.action_spec_unbatched
    if not isinstance(spec, Bounded) or not bool(torch.isfinite(spec.space.low).all()):
        raise ConfigError(
            f"the environment's actions are {type(spec).__name__}, this network is for bounded "
            "vectors: choose an environment with continuous actions, or recipe=dqn for numbered "
            "ones"
        )
    return spec


def observed_size(environment: EnvBase, key: str = "observation") -> int:
    """Return the size of an observed vector of an environment.

    Raises:
        ConfigError: the environment has no such vector.
    """
    spec = environment.observation_spec_unbatched
    if key not in spec or len(spec[key].shape) != 1:
        shapes = {str(name): list(spec[name].shape) for name in spec}
        raise ConfigError(
            f"the environment observes {shapes}, not one vector '{key}': choose another "
            "environment, or write an actor and a critic for it"
        )
    return int(spec[key].shape[0])


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


def q_value(
    *,
    environment: EnvBase,
    num_cells: list[PositiveInt],
    inputs: list[NonEmptyText],
    layer_norm: bool = False,
) -> ValueOperator:
    """Create Q(s, a), a ReLU network of the concatenated inputs and action.

    Reads ``inputs`` and ``action``. Writes ``state_action_value`` ``[N, 1]``, in reward units.

    Args:
        environment: defines the observations and the size of an action.
        num_cells: width of each hidden layer.
        inputs: names of the observed vectors that the network reads.
        layer_norm: normalise each hidden layer (RLPD, arXiv:2302.02948, section 4.2).

    Raises:
        ConfigError: the actions are not bounded vectors, or an input is no vector.
    """
    actions = bounded_actions(environment).shape[-1]
    network = MLP(
        in_features=sum(observed_size(environment, key) for key in inputs) + actions,
        out_features=1,
        num_cells=num_cells,
        activation_class=nn.ReLU,
        norm_class=nn.LayerNorm if layer_norm else None,
        norm_kwargs=[{"normalized_shape": width} for width in num_cells] if layer_norm else None,
    )
    return ValueOperator(network, in_keys=[*inputs, "action"])


def action_values(*, environment: EnvBase, num_cells: list[PositiveInt]) -> QValueActor:
    """Create Q(s, .) of all discrete actions (DQN), a ReLU network that acts greedily.

    Reads ``observation``. Writes ``action_value`` ``[N, actions]``, ``action`` ``[N]`` and
    ``chosen_action_value`` ``[N, 1]``.

    Args:
        environment: defines the observations and the actions.
        num_cells: width of each hidden layer.

    Raises:
        ConfigError: the actions are not discrete, or the observation is no vector.
    """
    actions = numbered_actions(environment)
    network = MLP(
        in_features=observed_size(environment),
        out_features=actions.n,
        num_cells=num_cells,
        activation_class=nn.ReLU,
    )
    return QValueActor(network, in_keys=["observation"], spec=actions)


class ContrastiveCritic(nn.Module):
    """Contrastive critic ``f(s, a, g) = -||phi(s, a) - psi(g)||_2``.

    Args:
        environment: defines the observations and the size of an action.
        state: name of the observed vector of the state.
        goal: name of the observed vector of the goal.
        network: called with ``in_features`` and ``out_features``, once for each embedding.
        embedding: size of the embeddings.

    Raises:
        ConfigError: the actions are not bounded vectors, or state or goal is no vector.

    Source:
        Eysenbach et al. 2022, arXiv:2206.07568; Wang et al. 2025, arXiv:2503.14858.
    """

    def __init__(
        self,
        *,
        environment: EnvBase,
        state: NonEmptyText = "observation",
        goal: NonEmptyText = "desired_goal",
        network: Callable[..., nn.Module],
        embedding: PositiveInt = 64,
    ) -> None:
        super().__init__()
        arguments = {"environment": environment, "state": state, "goal": goal}
        check_arguments(type(self), (), {**arguments, "network": network, "embedding": embedding})
        self.state, self.goal = state, goal
        size = observed_size(environment, state) + bounded_actions(environment).shape[-1]
        self.phi = network(in_features=size, out_features=embedding)
        self.psi = network(in_features=observed_size(environment, goal), out_features=embedding)

    def forward(self, state: Tensor, action: Tensor, goal: Tensor) -> Tensor:
        """Compute energies of every pair of state and action ``i`` and goal ``j``, ``[N, M]``."""
        return energies(self.phi(state, action), self.psi(goal))
