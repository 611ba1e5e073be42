"""Action-value networks: Q(s, a) of continuous actions, Q(s, .) of numbered actions."""

from __future__ import annotations

from torch import nn
from torchrl.envs import EnvBase
from torchrl.modules import MLP, QValueActor, ValueOperator

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.model.continuous_control import bounded_actions
from rlcomp.model.control import numbered_actions, observed_size


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
        inputs: the observed vectors of the environment that it reads.
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
    """Create Q(s, .) of all numbered actions (DQN), a ReLU network that acts greedily.

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
