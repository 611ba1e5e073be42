"""Critic of contrastive reinforcement learning: two embeddings and their distance."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torchrl.envs import EnvBase

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import check_arguments
from rlcomp.functional.contrastive import energies
from rlcomp.model.continuous_control import bounded_actions
from rlcomp.model.control import observed_size


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
