"""Conservative Q-learning: soft actor-critic with low critics outside the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.envs import EnvBase
from torchrl.objectives import SACLoss

from components.loss.transitions import TransitionLoss
from rlcomp.arguments import PositiveFloat, PositiveInt, Probability
from rlcomp.metrics import record
from rlcomp.model.continuous_control import bounded_actions
from rlcomp.seed import new_generator


class ConservativeLoss(TransitionLoss):
    """CQL(H): ``L = L_SAC + w sum_i mean_s (log int exp Q_i(s, a) da - Q_i(s, a_data))``.

    The integral is estimated from ``n`` uniform actions, ``n`` of the policy in ``s`` and ``n`` of
    the policy in ``s'``, each weighted by its density:
    ``log (1 / 3n) sum_j exp(Q(s, a_j) - log p(a_j))``.

    (torchrl's ``CQLLoss`` takes the logarithm over three actions at a time instead of all, and
    draws uniform actions from [-1, 1] for any bounds; a test shows both.)

    Reads what :class:`~components.loss.transitions.TransitionLoss` reads. Writes its scalars and
    ``loss_cql``.

    Args:
        objective: constructor of torchrl's ``SACLoss``.
        networks: the loss's networks by argument.
        gamma: discount of a step, in [0, 1].
        period: number of calls per use of an entry of the loss, by entry.
        environment: the environment, for the bounds of the actions.
        conservative_weight: ``w``, weight of the conservative term.
        num_actions: ``n``, actions of each kind.

    Source:
        Kumar et al. 2020, arXiv:2006.04779, eq. 4 and appendix F.
    """

    equation = (
        "y = r + {gamma} (1 - terminated) V'(s'); + {conservative_weight} sum_i mean (log int exp "
        "Q_i(s, a) da - Q_i(s, a_data))"
    )

    low: Tensor
    high: Tensor

    def __init__(
        self,
        *,
        objective: Callable[..., SACLoss],
        networks: Mapping[str, TensorDictModuleBase | Callable[[], TensorDictModuleBase]],
        gamma: Probability = 0.99,
        period: Mapping[str, PositiveInt],
        environment: EnvBase,
        conservative_weight: PositiveFloat = 1.0,
        num_actions: PositiveInt = 10,
    ) -> None:
        super().__init__(
            objective=lambda **made: objective(**made),
            networks=networks,
            gamma=gamma,
            period={key: every for key, every in period.items() if key != "loss_cql"},
        )
        self.period = dict(period)
        self.conservative_weight = conservative_weight
        self.num_actions = num_actions
        space = bounded_actions(environment).space
        self.register_buffer("low", space.low.clone(), persistent=False)
        self.register_buffer("high", space.high.clone(), persistent=False)
        self.out_keys = [*self.out_keys, "loss_cql"]
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalars that this call uses, in a new TensorDict."""
        values = super().forward(batch)
        gap = self.conservative_gap(batch)
        record("loss/cql", gap.detach())
        if int(self.calls) % self.period.get("loss_cql", 1) == 0:
            values["loss_cql"] = self.conservative_weight * gap
        return values

    def conservative_gap(self, batch: TensorDict) -> Tensor:
        """Return ``sum_i mean_s (log int exp Q_i(s, a) da - Q_i(s, a_data))``, a scalar."""
        actions, density = self._proposals(batch)
        states = batch["observation"].expand(len(actions), *batch["observation"].shape)
        everywhere = self._values(states, actions) - density  # [2, 3n, N]
        soft_maximum = everywhere.logsumexp(1) - math.log(len(actions))
        of_data = self._values(batch["observation"], batch["action"])
        return (soft_maximum - of_data).mean(1).sum()

    @torch.no_grad()
    def _proposals(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Return actions ``[3n, N, A]`` and their log-densities ``[3n, N]``."""
        shape = (self.num_actions, *batch["action"].shape)
        share = torch.rand(shape, generator=self.generator).to(self.low.device)
        uniform = self.low + (self.high - self.low) * share
        flat = -(self.high - self.low).log().sum().expand(shape[:2])
        proposals = [(uniform, flat)]
        objective = self.objective
        with objective.actor_network_params.to_module(objective.actor_network):
            for rows in (batch, batch["next"]):
                policy = objective.actor_network.get_dist(rows.select("observation"))
                actions = policy.sample((self.num_actions,))
                proposals.append((actions, policy.log_prob(actions)))
        return torch.cat([each[0] for each in proposals]), torch.cat(
            [each[1] for each in proposals]
        )

    def _values(self, observation: Tensor, action: Tensor) -> Tensor:
        """Return ``Q_i(s, a)`` of every critic, ``[2, ...]``."""
        objective, values = self.objective, []
        entries = {"observation": observation, "action": action}
        for params in objective.qvalue_network_params.unbind(0):
            rows = TensorDict(entries, batch_size=observation.shape[:-1])
            with params.to_module(objective.qvalue_network):
                values.append(objective.qvalue_network(rows)["state_action_value"][..., 0])
        return torch.stack(values)
