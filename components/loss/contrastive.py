"""Contrastive reinforcement learning: a critic trained by InfoNCE and an actor for goals."""

from __future__ import annotations

import math

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.func import functional_call
from torchrl.modules import ProbabilisticActor

from rlcomp.arguments import NonNegativeFloat, PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.goal_conditioned import info_nce
from rlcomp.model.control import ContrastiveCritic


class ContrastiveLoss(Component):
    """Losses of critic, actor and temperature of contrastive RL on steps with later goals.

    ``L_f = mean_i (logsumexp_j f_ij - f_ii) + penalty mean_i (logsumexp_j f_ij)^2``;
    ``L_pi = mean (alpha log pi(a|s,g) - f(s, a, g))``, ``a ~ pi``, without a gradient on ``f``;
    ``L_alpha = -log alpha mean (log pi + H)``, with ``H`` the target entropy in nats. The losses
    read no reward.

    Reads ``observation``, ``action`` and ``desired_goal``, a goal that the episode reached after
    the row's step. Writes the scalars ``loss_critic``, ``loss_actor``, ``loss_alpha``, ``alpha``,
    ``entropy`` and ``accuracy``, the share of rows whose own goal has the greatest energy ``f``.

    Args:
        actor: the actor; draws actions for state and goal.
        critic: the critic ``f``.
        penalty: weight of the squared log-partition.
        entropy_per_action: ``-H / dim A``, nats per component of an action.
        alpha_init: initial temperature.

    Source:
        Eysenbach et al. 2022, arXiv:2206.07568; constants: Wang et al. 2025, arXiv:2503.14858.
    """

    reads = ("observation", "action", "desired_goal")
    equation = "L = mean_i (logsumexp_j f_ij - f_ii) + {penalty} mean_i (logsumexp_j f_ij)^2"

    def __init__(
        self,
        *,
        actor: ProbabilisticActor,
        critic: ContrastiveCritic,
        penalty: NonNegativeFloat = 0.1,
        entropy_per_action: float = 0.5,
        alpha_init: PositiveFloat = 1.0,
    ) -> None:
        super().__init__()
        self.actor, self.critic = actor, critic
        self.penalty = penalty
        self.target_entropy = -entropy_per_action * actor.spec["action"].shape[-1]
        self.log_alpha = torch.nn.Parameter(torch.tensor(math.log(alpha_init)))
        self.out_keys = ["loss_critic", "loss_actor", "loss_alpha", "alpha", "entropy", "accuracy"]

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalars, in a new TensorDict."""
        energy = self.critic(batch[self.critic.state], batch["action"], batch[self.critic.goal])
        diagonal = torch.arange(len(energy), device=energy.device)
        alpha = self.log_alpha.detach().exp()
        action, log_prob = self._sample_actions(batch)
        entropy = -log_prob.detach().mean()
        values = {
            "loss_critic": info_nce(energy, self.penalty),
            "loss_actor": (alpha * log_prob - self._energy(batch, action)).mean(),
            "loss_alpha": self.log_alpha * (entropy - self.target_entropy),
            "alpha": alpha,
            "entropy": entropy,
            "accuracy": (energy.detach().argmax(dim=1) == diagonal).float().mean(),
        }
        return TensorDict(values, batch_size=[])

    def _sample_actions(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Return sampled actions ``[N, A]`` and their log-probs ``[N]``, both with gradient."""
        distribution = self.actor.get_dist(batch.select(*self.actor.in_keys))
        action = distribution.rsample()
        return action, distribution.log_prob(action)

    def _energy(self, batch: TensorDict, action: Tensor) -> Tensor:
        """Return ``f(s_i, a_i, g_i)``, ``[N]``, with a gradient for the action only."""
        weights = {name: weight.detach() for name, weight in self.critic.phi.named_parameters()}
        state_action = functional_call(self.critic.phi, weights, (batch[self.critic.state], action))
        with torch.no_grad():
            goal = self.critic.psi(batch[self.critic.goal])
        distance: Tensor = (state_action - goal).norm(dim=-1)
        return -distance
