"""Multi-objective rewards, scalarised into one reward."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.arguments import NonEmptyText
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.pooled_reward import record_calls
from rlcomp.metrics import record, recording
from rlcomp.pareto.aggregator import Aggregator, aggregation_weights
from rlcomp.pareto.objectives import centre_rewards, objective_statistics, stack_rewards


class MultiObjectiveReward(Component):
    """Multi-objective rewards: a stage that replaces ``reward`` by a weighted sum of several.

    ``R = sum_k w_k R_k`` with ``w`` from the aggregator.

    A row lacks an objective if the reward of the objective is not valid: NaN in ``rewards``. Then
    the sum of the row is not valid either, unless the objective has weight 0 in the row and the row
    has another objective. An advantage that reads ``rewards`` (``advantage=per_objective``) learns
    each objective from the rows that have it. The aggregator gets the rewards minus the
    mean of their group, for rows that have every objective.

    Reads ``reward``, ``reward_valid`` and ``group_id`` (``[B]``), and ``preference`` (``[B, K]``)
    if present. Runs its parts, each on a copy of the batch. Writes ``rewards`` (``{name: [B]}``,
    unweighted, NaN where missing; first the batch's own reward, then the parts), ``reward`` (the
    weighted sum) and ``reward_valid``; it does not change ``correct``. Records ``reward/<name>``
    over the rows that have the objective, ``reward/weighted`` over valid rows, and the metrics of
    :func:`rlcomp.pareto.aggregator.aggregation_weights`.

    Args:
        parts: the further rewards by name; a part that is null is ignored.
        aggregator: computes the weights of the objectives.
        first: the name of the batch's own reward.

    Raises:
        ConfigError: there are no parts, a part has the name ``first``, or the aggregator names
            other objectives.
    """

    reads = ("reward", "reward_valid", "group_id")
    optional = ("preference",)
    writes = ("reward", "rewards", "reward_valid")
    runs = ("parts",)
    contained = True
    must_reach = ("reward|rewards",)

    def __init__(
        self,
        *,
        parts: dict[str, Component | None],
        aggregator: Aggregator,
        first: NonEmptyText = "correctness",
    ) -> None:
        super().__init__()
        rewards = {name: part for name, part in parts.items() if part is not None}
        if not rewards:
            raise ConfigError(
                "MultiObjectiveReward: parts is empty: add an objective, such as +objective=brevity"
            )
        if first in rewards:
            raise ConfigError(
                f"MultiObjectiveReward: parts holds {first!r}, the name of the batch's own reward: "
                "rename the part, or set objectives.first"
            )
        self.parts = nn.ModuleDict(rewards)
        self.aggregator = aggregator
        self.first = first
        aggregator.check(self.names)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run every part and write the weighted sum of all rewards."""
        rewards = self.per_objective(batch)
        total = self._weighted(batch, rewards)
        valid = ~total.isnan()
        batch["rewards"], batch["reward_valid"] = rewards, valid
        batch["reward"] = masked(total, valid)
        for name, reward in rewards.items():
            record(f"reward/{name}", reward, where=~reward.isnan())
        record("reward/weighted", total, where=valid)
        return batch

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the objectives, in the order of ``rewards``."""
        return (self.first, *self.parts)

    def per_objective(self, batch: TensorDict) -> TensorDict:
        """Return every objective of a batch, unweighted: ``{name: [B]}``, NaN where missing."""
        # Keep only the metrics of the parts' calls: the others would mix with the outcome's.
        with recording() as ledger:
            results = {name: part(batch.copy()) for name, part in self.parts.items()}
        record_calls(ledger)
        return TensorDict(
            {
                name: _reward_or_nan(result)
                for name, result in {self.first: batch, **results}.items()
            },
            batch_size=batch.batch_size,
        )

    def _weighted(self, batch: TensorDict, rewards: TensorDict) -> Tensor:
        """Return the weighted sum, ``[B]``; NaN if an objective that is not ignored is missing."""
        names, values = stack_rewards(rewards)
        vectors = centre_rewards(values, batch["group_id"])
        weights = aggregation_weights(
            self.aggregator,
            objective_statistics(names, values, vectors, batch.get("preference", None)),
        )
        # A missing objective of weight 0 is ignored, if the row has another objective.
        ignored = (weights == 0) & ~values.isnan().all(1, keepdim=True)
        return (weights * masked(values, ~ignored)).sum(1).to(batch["reward"])


def _reward_or_nan(result: TensorDict) -> Tensor:
    """Return the reward of a result, NaN if it is not valid."""
    reward: Tensor = result["reward"]
    return torch.where(result["reward_valid"], reward, torch.full_like(reward, torch.nan))
