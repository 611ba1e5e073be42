"""Critics of control."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torchrl.envs import EnvBase
from torchrl.modules import MLP, QValueActor, ValueOperator
from transformers import PreTrainedModel

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component, check_arguments
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.engine.transformer import Transformer
from rlcomp.functional.contrastive import energies
from rlcomp.model.continuous_control import bounded_actions
from rlcomp.model.control import numbered_actions, observed_size
from rlcomp.model.token_rows import token_rows
from rlcomp.model.value_head import ValueHead, parted, read_values
from rlcomp.parallel.load_balancing import score_on_ranks
from rlcomp.parallel.ranks import ranks


class Critic(Component):
    """Separate critic: a copy of a language model's backbone with a value head.

    The copy is made when the first phase with the critic begins. Given the policy's model, it then
    starts from the policy after a warm start. From then on the two are separate.

    Like a policy it stays in eval mode, even while it is trained.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``.

    Writes ``value`` ``[B, T]``, in reward units: the value of the state before the token, read from
    the hidden state of the previous token; 0 at t = 0 and outside ``response_mask``.

    Args:
        model: a causal model of transformers; it is not changed.
        engine: the compute engine of the backbone.

    Source:
        Stiennon et al. 2020, arXiv:2009.01325: policy and critic share no weights (theirs starts
        from the reward model).
    """

    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("value",)

    model: PreTrainedModel
    started: Tensor
    _transformer: Transformer | None

    def __init__(self, *, model: PreTrainedModel, engine: Engine = AUTO) -> None:
        super().__init__()
        # Not registered in nn.Module: the model's tensors belong to its owner.
        object.__setattr__(self, "model", model)
        self.backbone = copy.deepcopy(model.get_decoder()).eval()
        self.engine = engine
        object.__setattr__(self, "_transformer", engine.backbone(model, self.backbone))
        self.value_head = ValueHead(model)
        # A buffer, so that a continued run does not start over.
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def train(self, mode: bool = True) -> Critic:
        """Set this module's flag; the backbone itself stays in eval mode."""
        super().train(mode)
        self.backbone.eval()
        return self

    @property
    def packs(self) -> bool:
        """Return whether the forward uses packed sequences with shared prompts."""
        return self._transformer is not None

    def begin_phase(self) -> None:
        """Copy the model's current weights, once."""
        if not bool(self.started):
            self.backbone.load_state_dict(self.model.get_decoder().state_dict())
            self.started.fill_(True)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the values, with gradient where gradients are enabled."""
        batch["value"] = self.values(batch)
        return batch

    def values(self, batch: TensorDict) -> Tensor:
        """Compute values of a batch, shape ``[B, T]``, in reward units."""
        shared = None if torch.is_grad_enabled() else ranks()
        if shared is not None and shared.can_share(self):
            columns = token_rows(type(self).__name__, batch)
            values: Tensor = shared.call_on_all(self, "values_on_ranks", columns)
            return values.to(batch["tokens"].device)
        return self._values(batch)

    def _values(self, batch: TensorDict) -> Tensor:
        return read_values(self.backbone, self._transformer, self.value_head, batch)

    def values_on_ranks(self, rows: TensorDict) -> Tensor:
        """Compute values without gradient; each rank reads a part of the rows."""
        return score_on_ranks(self, rows.to(self.value_head.weight.device), parted, Critic._values)


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


class ContrastiveCritic(nn.Module):
    """Contrastive critic ``f(s, a, g) = -||phi(s, a) - psi(g)||_2``.

    Args:
        environment: defines the observations and the size of an action.
        state: the vector that is the state.
        goal: the vector that is the goal.
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
