"""torchrl's losses of steps, with all tensors from the start."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.objectives import DiscreteSACLoss, SACLoss
from torchrl.objectives.common import LossModule

from rlcomp.arguments import NonEmptyText, PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.errors import ConfigError, nearest
from rlcomp.metrics import record


class TransitionLoss(Component):
    """Loss of torchrl, unchanged, on steps ``(s, a, r, s', terminated)``, with a discount.

    torchrl makes the value estimator and the entropy target in the first forward pass. Here they
    exist from the start, so that the checkpoints of a new run and of an old one have the same
    tensors. Only the estimator takes the discount.

    Reads ``observation``, ``action`` and, under ``next``, ``observation``, ``reward``, ``done``,
    ``terminated``. Writes the scalars of the loss. Rows with an ``index`` (drawn by priority) are
    weighted by ``priority_weight``, and the greatest ``|delta|`` of the critics is stored for them.

    Args:
        objective: constructor that gets the networks, e.g. a partial of
            ``torchrl.objectives.SACLoss``.
        networks: the loss's networks by argument. A partial (no node of its own) is made here:
            torchrl draws new parameters for a stack of critics, so a node would never be trained.
        gamma: discount of a step, in [0, 1].
        period: number of calls per use of an entry of the loss, by entry: ``loss_actor: 2`` is
            TD3's delayed policy, a large number the update-to-data ratio of REDQ and RLPD.
        alone: method of the loss by its entry, used in calls that need only this entry: the rest
            is not computed then.

    Raises:
        ConfigError: the loss has no entry that ``period`` or ``alone`` names, or no such method.
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
        if torch.is_grad_enabled():
            self.calls += 1
        values = self._computed(batch)
        due = [key for key in values.keys() if self._is_due(key)]
        for key in due:
            if key.startswith("loss"):
                record(f"loss/{key.removeprefix('loss_')}", values[key].detach())
        return values.select(*due)

    def _is_due(self, entry: str) -> bool:
        return int(self.calls) % self.period.get(entry, 1) == 0

    def _computed(self, batch: TensorDict) -> TensorDict:
        """Return all entries, or only the one that is used if the loss can compute it alone."""
        due = [entry for entry in map(str, self.out_keys) if self._is_due(entry)]
        losses = [entry for entry in due if entry.startswith("loss")]
        rows = batch.copy()  # torchrl writes its errors into its input
        if len(losses) == 1 and losses[0] in self.alone:
            value, details = getattr(self.objective, self.alone[losses[0]])(rows)
            self._note(batch, details.get("td_error"))
            return TensorDict({losses[0]: value}, batch_size=[])
        values: TensorDict = self.objective(rows)
        self._note(batch, rows.get("td_error", None))
        return values

    def _note(self, batch: TensorDict, error: torch.Tensor | None) -> None:
        """Keep the errors of rows of a replay, for priorities."""
        if "index" in batch.keys() and error is not None:
            # torchrl writes |delta| for soft actor-critic, and its square for the others.
            plain = isinstance(self.objective, (SACLoss, DiscreteSACLoss))
            error = error.detach().flatten()
            self.errors = batch["index"], error if plain else error.sqrt()
