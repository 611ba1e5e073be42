"""Losses of off-policy control."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.envs import EnvBase
from torchrl.objectives import DiscreteSACLoss, SACLoss
from torchrl.objectives.common import LossModule

from rlcomp.arguments import NonEmptyText, PositiveFloat, PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.errors import ConfigError, nearest
from rlcomp.metrics import record
from rlcomp.model.control import bounded_actions
from rlcomp.seed import new_generator


class TransitionLoss(Component):
    """Loss of torchrl, unchanged, on steps ``(s, a, r, s', terminated)``, with a discount.

    torchrl creates the value estimator and the entropy target in the first forward pass. This class
    creates them in its constructor, so that checkpoints have the same tensors before and after the
    first step. Only the estimator takes the discount.

    Reads ``observation``, ``action`` and, under ``next``, ``observation``, ``reward``, ``done``,
    ``terminated``. Writes the scalars of the loss, and records each used loss as ``loss/<name>``.
    Rows with an ``index`` were drawn by priority: torchrl weights them by ``priority_weight``, and
    ``errors`` holds their indices and ``|delta|``, the greatest over the critics.

    Args:
        objective: function of the networks that returns the loss, such as a partial of
            ``torchrl.objectives.SACLoss``.
        networks: the networks of the loss by the name of its argument. A partial is called here
            and is no node of its own: torchrl draws new parameters for a stack of critics, so the
            parameters of a node would never be trained.
        gamma: discount of a step, in [0, 1].
        period: number of calls per use of an entry of the loss, by entry. ``loss_actor: 2`` is
            TD3's delayed policy; a large number is the update-to-data ratio of REDQ and RLPD.
        alone: by entry, the method of the loss that computes only this entry. A call that uses no
            other entry calls the method instead of the whole loss.

    Raises:
        ConfigError: ``period`` or ``alone`` names an entry that the loss does not have, or
            ``alone`` a method that it does not have.
    """

    reads = (
        *("observation", "action", "next.observation", "next.reward", "next.done"),
        "next.terminated",
    )
    optional = ("index", "priority_weight")
    equation = "y = r + {gamma} (1 - terminated) V'(s')"

    calls: torch.Tensor

    def __init__(
        self,
        *,
        objective: Callable[..., LossModule],
        networks: Mapping[str, TensorDictModuleBase | Callable[[], TensorDictModuleBase]],
        gamma: Probability = 0.99,
        period: Mapping[str, PositiveInt],
        alone: Mapping[str, NonEmptyText] | None = None,
    ) -> None:
        super().__init__()
        modules = {
            name: network() if isinstance(network, functools.partial) else network
            for name, network in networks.items()
        }
        self.objective = objective(**modules)
        self.objective.make_value_estimator(gamma=gamma)
        _ = getattr(self.objective, "target_entropy", None)  # this property makes the buffer
        self.gamma = gamma
        self.period, self.alone = dict(period), dict(alone or {})
        self.errors: tuple[torch.Tensor, torch.Tensor] | None = None
        self.in_keys = list(self.objective.in_keys)
        self.out_keys = list(self.objective.out_keys)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self._check_entries()

    def _check_entries(self) -> None:
        """Refuse names of entries and methods that the loss does not have."""
        entries = [str(key) for key in self.out_keys]
        for argument, names in (("period", self.period), ("alone", self.alone)):
            for name in names:
                if name not in entries:
                    raise ConfigError(
                        f"{argument} names '{name}', no entry of the loss{nearest(name, entries)}"
                    )
        for name, method in self.alone.items():
            if not callable(getattr(self.objective, method, None)):
                raise ConfigError(
                    f"alone.{name} is '{method}': {type(self.objective).__name__} has no such "
                    "method"
                )

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalars that this call uses, in a new TensorDict."""
        if torch.is_grad_enabled():  # Only passes with gradient count as calls of ``period``.
            self.calls += 1
        values = self._compute(batch)
        entries = [key for key in values.keys() if self._is_used(key)]
        for key in entries:
            if key.startswith("loss"):
                record(f"loss/{key.removeprefix('loss_')}", values[key].detach())
        return values.select(*entries)

    def _is_used(self, entry: str) -> bool:
        """Test if this call uses an entry of the loss."""
        return int(self.calls) % self.period.get(entry, 1) == 0

    def _compute(self, batch: TensorDict) -> TensorDict:
        """Return all entries, or only the used entry if the loss can compute it alone."""
        used = [entry for entry in map(str, self.out_keys) if self._is_used(entry)]
        losses = [entry for entry in used if entry.startswith("loss")]
        rows = batch.copy()  # torchrl writes its errors into its input
        if len(losses) == 1 and losses[0] in self.alone:
            value, details = getattr(self.objective, self.alone[losses[0]])(rows)
            self._store_errors(batch, details.get("td_error"))
            return TensorDict({losses[0]: value}, batch_size=[])
        values: TensorDict = self.objective(rows)
        self._store_errors(batch, rows.get("td_error", None))
        return values

    def _store_errors(self, batch: TensorDict, error: torch.Tensor | None) -> None:
        """Store the errors of replayed rows, for the priorities of the replay."""
        if "index" in batch.keys() and error is not None:
            # torchrl writes |delta| for soft actor-critic, and delta^2 for other losses.
            is_absolute = isinstance(self.objective, (SACLoss, DiscreteSACLoss))
            error = error.detach().flatten()
            self.errors = batch["index"], error if is_absolute else error.sqrt()


class SACWithoutTargetEntropy(SACLoss):  # type: ignore[misc]
    """torchrl's SAC with ``y = r + gamma (1 - terminated) min_i Q'_i(s', a')``, ``a' ~ pi``.

    The policy still gets its entropy bonus. A bonus in the target would reward long episodes; under
    a sparse reward this bonus can exceed the reward of the goal.

    Source:
        Ball et al. 2023, arXiv:2302.02948, section 4.4 (``backup_entropy``); Luo et al. 2024,
        arXiv:2401.16013.
    """

    equation = "y = r + gamma (1 - terminated) min_i Q'_i(s', a'), a' ~ pi"
    _in_target = False

    @property
    def _alpha(self) -> Tensor:
        """The temperature, set to 0 for the target because torchrl has no switch for it."""
        alpha: Tensor = super()._alpha
        return torch.zeros_like(alpha) if self._in_target else alpha

    def _compute_target_v2(self, tensordict: TensorDict) -> Tensor:
        self._in_target = True
        target: Tensor = super()._compute_target_v2(tensordict)
        self._in_target = False
        return target


class ConservativeLoss(TransitionLoss):
    """CQL(H): ``L = L_SAC + w sum_i mean_s (log int exp Q_i(s, a) da - Q_i(s, a_data))``.

    The integral is estimated from ``n`` uniform actions, ``n`` of the policy in ``s`` and ``n`` of
    the policy in ``s'``, each weighted by its density:
    ``log (1 / 3n) sum_j exp(Q(s, a_j) - log p(a_j))``.

    (torchrl's ``CQLLoss`` takes the logarithm over three actions at a time instead of all, and
    draws uniform actions from [-1, 1] for any bounds; a test shows both differences.)

    Reads the entries of :class:`~components.loss.transitions.TransitionLoss`. Writes its scalars
    and ``loss_cql``, the weighted term. Records ``loss/cql``, the term without ``w``, at every
    call.

    Args:
        objective: function of the networks that returns torchrl's ``SACLoss``.
        networks: the networks of the loss by the name of its argument.
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
            objective=objective,
            networks=networks,
            gamma=gamma,
            # Without ``loss_cql``, which torchrl's loss does not have: the base class refuses it.
            period={entry: calls for entry, calls in period.items() if entry != "loss_cql"},
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
        if self._is_used("loss_cql"):
            values["loss_cql"] = self.conservative_weight * gap
        return values

    def conservative_gap(self, batch: TensorDict) -> Tensor:
        """Return ``sum_i mean_s (log int exp Q_i(s, a) da - Q_i(s, a_data))``, a scalar."""
        actions, density = self._proposals(batch)
        states = batch["observation"].expand(len(actions), *batch["observation"].shape)
        weighted_values = self._values(states, actions) - density  # [2, 3n, N]
        soft_maximum = weighted_values.logsumexp(1) - math.log(len(actions))
        data_values = self._values(batch["observation"], batch["action"])
        return (soft_maximum - data_values).mean(1).sum()

    @torch.no_grad()
    def _proposals(self, batch: TensorDict) -> tuple[Tensor, Tensor]:
        """Return actions ``[3n, N, A]`` and their log-densities ``[3n, N]``."""
        shape = (self.num_actions, *batch["action"].shape)
        draws = torch.rand(shape, generator=self.generator).to(self.low.device)
        uniform = self.low + (self.high - self.low) * draws
        density = -(self.high - self.low).log().sum().expand(shape[:2])
        proposals = [(uniform, density)]
        objective = self.objective
        with objective.actor_network_params.to_module(objective.actor_network):
            for rows in (batch, batch["next"]):
                policy = objective.actor_network.get_dist(rows.select("observation"))
                actions = policy.sample((self.num_actions,))
                proposals.append((actions, policy.log_prob(actions)))
        actions, densities = zip(*proposals, strict=True)
        return torch.cat(actions), torch.cat(densities)

    def _values(self, observation: Tensor, action: Tensor) -> Tensor:
        """Return ``Q_i(s, a)`` of every critic, ``[2, ...]``."""
        objective, values = self.objective, []
        entries = {"observation": observation, "action": action}
        for params in objective.qvalue_network_params.unbind(0):
            rows = TensorDict(entries, batch_size=observation.shape[:-1])
            with params.to_module(objective.qvalue_network):
                values.append(objective.qvalue_network(rows)["state_action_value"][..., 0])
        return torch.stack(values)
