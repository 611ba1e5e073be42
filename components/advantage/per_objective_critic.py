"""Multi-objective advantage from a critic: GAE for each objective, combined by an aggregator."""

from __future__ import annotations

from typing import Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from components.advantage.gae import GAE
from components.advantage.per_objective import PerObjective
from components.advantage.vapo import VAPO
from rlcomp.component import Component
from rlcomp.errors import ConfigError, ShapeError
from rlcomp.pareto.aggregator import Aggregator


class PerObjectiveCritic(PerObjective):
    """Multi-objective advantage with a value for each objective.

    ``A = sum_k w_k A_k / s_k`` with ``A_k`` the estimator (GAE) on reward k and value k:
    ``delta_k,t = r_k,t + gamma V_k,t+1 - V_k,t``.

    Everything else is as in :class:`PerObjective`. Advantages must not be whitened one by one:
    with means of 0 and vectors of equal lengths PAMA has nothing to weigh.

    Reads what :class:`PerObjective` does, and ``objective_values`` ``[B, T, K]``. Writes what it
    does, ``objective_returns`` ``[B, T, K]``, in units of the rewards, and ``objective_present``
    ``[B, K]``: where it is False, the row has no return for the critic to learn.

    Args:
        advantage: the estimator, run once per objective: ``gae_unwhitened``, ``noon_gae``.
        aggregator: another one: ``pareto@advantage.aggregator=linear``.
        scale: ``"running"``, or ``"none"`` to divide by nothing.

    Raises:
        ConfigError: the estimator leaves no ``returns`` for the critic to learn, or whitens.
        ShapeError: there are not as many values as objectives.

    Source:
        He et al. 2025, arXiv:2508.07768 (PAMA, with PPO's GAE).
    """

    keys = {
        "objective_values": ("B T K", "float", "value of each objective, in the order of rewards"),
        "objective_returns": ("B T K", "float", "return of each objective, its critic's target"),
        "objective_present": ("B K", "bool", "whether the row has a reward for that objective"),
    }
    reads = (*PerObjective.reads, "objective_values")  # type: ignore[assignment]
    writes = (  # type: ignore[assignment]
        *PerObjective.writes,
        "objective_returns",
        "objective_present",
    )
    supplies = (*PerObjective.supplies, "value")  # type: ignore[assignment]
    contained = True

    def __init__(
        self, *, advantage: Component, aggregator: Aggregator, scale: Literal["running", "none"]
    ) -> None:
        super().__init__(advantage=advantage, aggregator=aggregator, scale=scale)
        parts = [part for part in advantage.modules() if isinstance(part, Component)]
        if not any("returns" in part.writes for part in parts):
            raise ConfigError(
                f"PerObjectiveCritic: advantage is {type(advantage).__name__}, which leaves no "
                "returns for the critic to learn: choose advantage@advantage.advantage="
                "gae_unwhitened, or advantage=per_objective without a critic"
            )
        for part in parts:
            if isinstance(part, GAE | VAPO) and part.whiten:
                raise ConfigError(
                    f"PerObjectiveCritic: advantage is {type(part).__name__} with whiten=True, "
                    "which gives the advantages of all objectives one mean and one length and "
                    "leaves the aggregator nothing to weigh: choose advantage@advantage.advantage="
                    "gae_unwhitened or noon_gae, or set whiten=false"
                )

    def _results(
        self, batch: TensorDict, names: tuple[str, ...], present: Tensor
    ) -> list[TensorDict]:
        values = batch["objective_values"]
        if values.shape[-1] != len(names):
            raise ShapeError(
                f"'objective_values' has shape {list(values.shape)}, but 'rewards' holds "
                f"{len(names)} objectives ({', '.join(names)})"
            )
        results = []
        for k, name in enumerate(names):
            one = batch.exclude(*self.supplies).set("value", values[..., k])
            results.append(self._estimated(one, batch["rewards"][name], present[:, k]))
        batch["objective_present"] = present.to(values.device)
        batch["objective_returns"] = torch.stack([one["returns"] for one in results], 2)
        return results
