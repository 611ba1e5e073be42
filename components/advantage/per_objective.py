"""Advantages of several objectives."""

from __future__ import annotations

import math
from typing import Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from components.advantage.gae import GAE, VAPO
from rlcomp.checkpoint.state import HasRunState
from rlcomp.component import Component
from rlcomp.errors import ConfigError, ShapeError
from rlcomp.functional.group_statistics import is_rounding
from rlcomp.functional.reduction import masked
from rlcomp.interfaces.advantage import write_advantage
from rlcomp.metrics import record, recording
from rlcomp.pareto.aggregator import Aggregator, RunningMeans, aggregation_weights
from rlcomp.pareto.objectives import objective_statistics, stack_rewards

# Decay of the running variance of each objective's rewards.
SCALE_DECAY = 0.99


class PerObjectiveAdvantage(Component):
    """Multi-objective advantage: weighted sum of per-objective advantages.

    ``A = sum_k w_k A_k / s_k`` with ``A_k`` the estimator on objective k, ``s_k`` a running std of
    its rewards and ``w`` the weights of the aggregator.

    The aggregator sees each objective as a vector: its advantages over the response tokens of the
    batch. (PAMA's vectors are ``I(A)``, advantages after PPO's clip; on-policy the ratio is 1 and
    ``I(A)`` is ``A``.) ``s_k`` is not the std of the batch, since that would give all vectors the
    same length. Objectives are outcome rewards: dense rewards belong to none of them, so put the KL
    penalty in the loss. Baselines are group baselines; for a critic of each objective see
    ``per_objective_critic``.

    An aggregator that maximises a function ``g(J_1, ..., J_K)`` of the expected returns (Chebyshev,
    thresholds) has the weights ``dg/dJ_k`` and weighs ``A_k`` instead of ``A_k / s_k``; its
    estimator should be in reward units as well (``group_mean``). A learner that weighs gradients
    (``learner=per_objective``) reads ``advantages``; then neither the aggregator nor the sum of
    this stage changes its policy loss.

    Reads ``rewards`` (``{name: [B]}``, NaN where a row lacks one), ``reward_valid`` ``[B]``,
    ``response_mask`` ``[B, T]``, ``preference`` ``[B, K]`` if present, and the keys of the
    estimator. Writes ``advantages`` ``[B, T, K]`` (divided by ``s_k``; 0 for an objective
    that a row lacks), ``advantage_scale`` ``[B, K]`` (``s_k``, the same in every row),
    ``advantage`` ``[B, T]`` and ``reward_valid``: the row has at least one objective. Tokens that
    the estimator takes out of ``response_mask`` for one objective are taken out for all. Records
    ``advantage/scale/<name>``, ``advantage/abs``, ``advantage/zero_fraction`` and the metrics of
    :func:`rlcomp.pareto.aggregator.aggregation_weights`.

    Args:
        advantage: the estimator, run once per objective; choose it by
            ``advantage@advantage.advantage=leave_one_out``.
        aggregator: computes the weights of the objectives; choose it by
            ``pareto@advantage.aggregator=linear``.
        scale: ``"running"`` divides by ``s_k``; ``"none"``: ``s_k = 1``.

    Raises:
        ConfigError: the estimator reads a critic's ``value`` or all ``rewards``, or keeps a state
            between batches, which all objectives would share.

    Source:
        He et al. 2025, arXiv:2508.07768 (PAMA: advantages as the vectors); running scales and other
        aggregators are this project's.
    """

    keys = {
        "advantage_scale": (
            "B K",
            "float",
            "divisor of each of advantages; the same in all rows",
            {"example": "same_in_all_rows"},
        )
    }
    reads = ("rewards", "reward_valid", "response_mask")
    writes = ("advantages", "advantage_scale", "advantage", "reward_valid")
    optional = ("preference",)
    runs = ("advantage",)
    supplies = ("reward", "reward_valid", "token_reward")

    def __init__(
        self,
        *,
        advantage: Component,
        aggregator: Aggregator,
        scale: Literal["running", "none"] = "running",
    ) -> None:
        super().__init__()
        _check_estimator(advantage, self.supplies)
        self.advantage = advantage
        self.aggregator = aggregator
        self.scale: Literal["running", "none"] = scale
        self.variance = RunningMeans(SCALE_DECAY)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantages and their weighted sum."""
        names, rewards = stack_rewards(batch["rewards"])
        present = _present(batch, rewards)
        results = self._estimates(batch, names, present)
        scales = torch.tensor(
            [self._scale(name, rewards[:, k][present[:, k]]) for k, name in enumerate(names)]
        ).to(results[0]["advantage"])
        scaled = torch.stack([result["advantage"] for result in results], 2) / scales
        batch["response_mask"] = torch.stack([result["response_mask"] for result in results]).all(0)
        vectors = scaled[batch["response_mask"]].T
        rewards = rewards.masked_fill(~present, torch.nan)
        objectives = objective_statistics(
            names, rewards, vectors, batch.get("preference", None), scales
        )
        weights = aggregation_weights(self.aggregator, objectives, "advantage").to(scaled)
        batch["advantages"] = masked(scaled, batch["response_mask"][..., None])
        batch["advantage_scale"] = scales.expand(len(rewards), -1).contiguous()
        batch["reward_valid"] = present.any(1).to(batch["response_mask"].device)
        # The weights are ``[K]``, or ``[B, K]`` if the aggregator weighs each row.
        weights = weights[:, None, :] if weights.ndim == 2 else weights
        total = (scaled.double() * weights).sum(2).to(scaled.dtype)
        batch = write_advantage(batch, total)
        mask, advantage = batch["response_mask"], batch["advantage"]
        record("advantage/abs", advantage.abs(), where=mask)
        record("advantage/zero_fraction", (advantage == 0).all(1), where=mask.any(1))
        return batch

    def _estimates(
        self, batch: TensorDict, names: tuple[str, ...], present: Tensor
    ) -> list[TensorDict]:
        """Return the batch with the estimator's results, one for each objective."""
        return [
            self._estimate(batch.exclude(*self.supplies), batch["rewards"][name], present[:, k])
            for k, name in enumerate(names)
        ]

    def _estimate(self, rows: TensorDict, reward: Tensor, present: Tensor) -> TensorDict:
        """Return the rows with one objective's advantage, ``[B, T]``, in the estimator's units."""
        present = present.to(rows["response_mask"].device)
        rows["reward"] = torch.where(present, reward, torch.zeros_like(reward))
        rows["reward_valid"] = present
        with recording():
            rows = self.advantage(rows)
        return write_advantage(rows, rows["advantage"])

    def _scale(self, name: str, reward: Tensor) -> float:
        """Return ``s_k``, the running std of an objective's rewards; 1 until they have differed."""
        if self.scale == "none":
            return 1.0
        # Equal rewards carry no information about the scale.
        if reward.numel() > 1 and not bool(is_rounding(reward.min(), reward.max())):
            self.variance.update(name, float(reward.var()))
        scale = math.sqrt(self.variance.get(name) or 1.0)
        record(f"advantage/scale/{name}", scale)
        return scale


def _check_estimator(advantage: Component, supplied: tuple[str, ...]) -> None:
    """Refuse an estimator that cannot run on one objective at a time."""
    for part in advantage.modules():
        reads = part.reads if isinstance(part, Component) else ()
        if "value" in reads and "value" not in supplied:
            fault = "reads a critic's value (that is advantage=per_objective_critic)"
        elif "rewards" in reads:
            fault = "reads all rewards, but is run on one objective at a time"
        elif isinstance(part, HasRunState) or any(True for _ in part.buffers(recurse=False)):
            fault = "keeps a state between batches, which all objectives would share"
        else:
            continue
        raise ConfigError(
            f"PerObjectiveAdvantage: advantage is {type(part).__name__}, which {fault}: choose "
            "advantage@advantage.advantage=group_mean"
        )


def _present(batch: TensorDict, rewards: Tensor) -> Tensor:
    """Return the mask of available objectives per row, shape ``[B, K]``, on the CPU.

    A missing objective has the reward NaN. It may make its row invalid, but the row's other
    objectives are available. An invalid row without NaN has no available objective.
    """
    missing = rewards.isnan()
    has_rewards: Tensor = batch["reward_valid"].cpu() | missing.any(1)
    return ~missing & has_rewards[:, None]


def _check_critic_estimator(advantage: Component) -> None:
    """Refuse an estimator that writes no returns, or whitens the advantages of each objective."""
    parts = [part for part in advantage.modules() if isinstance(part, Component)]
    if not any("returns" in part.writes for part in parts):
        raise ConfigError(
            f"PerObjectiveCriticAdvantage: advantage is {type(advantage).__name__}, which writes "
            "no returns for the critic to learn: choose advantage@advantage.advantage="
            "gae_unwhitened, or advantage=per_objective without a critic"
        )
    for part in parts:
        if isinstance(part, GAE | VAPO) and part.whiten:
            raise ConfigError(
                f"PerObjectiveCriticAdvantage: advantage is {type(part).__name__} with "
                "whiten=True: the advantages of all objectives would have one mean and one "
                "length, and the aggregator could not tell them apart; choose "
                "advantage@advantage.advantage=gae_unwhitened or noon_gae, or set whiten=false"
            )


class PerObjectiveCriticAdvantage(PerObjectiveAdvantage):
    """Multi-objective advantage with a value for each objective.

    ``A = sum_k w_k A_k / s_k`` with ``A_k`` the estimator (GAE) on reward k and value k:
    ``delta_k,t = r_k,t + gamma V_k,t+1 - V_k,t``.

    See :class:`PerObjectiveAdvantage`. Advantages must not be whitened one by
    one: with means of 0 and vectors of equal lengths PAMA has nothing to weigh.

    Reads and writes the entries of :class:`PerObjectiveAdvantage`; also reads ``objective_values``
    ``[B, T, K]`` and writes ``objective_returns`` ``[B, T, K]``, in units of the rewards, and
    ``objective_present`` ``[B, K]``. Where ``objective_present`` is False, the critic has no return
    to learn.

    Args:
        advantage: the estimator, run once per objective: ``gae_unwhitened``, ``noon_gae``.
        aggregator: computes the weights of the objectives; choose it by
            ``pareto@advantage.aggregator=linear``.
        scale: ``"running"`` divides by ``s_k``; ``"none"``: ``s_k = 1``.

    Raises:
        ConfigError: the estimator writes no ``returns`` for the critic to learn, or whitens.
        ShapeError: the number of values differs from the number of objectives.

    Source:
        He et al. 2025, arXiv:2508.07768 (PAMA, with PPO's GAE).
    """

    keys = {
        "objective_values": ("B T K", "float", "value of each objective, in the order of rewards"),
        "objective_returns": ("B T K", "float", "return of each objective, its critic's target"),
        "objective_present": ("B K", "bool", "the row has a reward for the objective"),
    }
    reads = (*PerObjectiveAdvantage.reads, "objective_values")  # type: ignore[assignment]
    writes = (  # type: ignore[assignment]
        *PerObjectiveAdvantage.writes,
        "objective_returns",
        "objective_present",
    )
    supplies = (*PerObjectiveAdvantage.supplies, "value")  # type: ignore[assignment]
    contained = True

    def __init__(
        self, *, advantage: Component, aggregator: Aggregator, scale: Literal["running", "none"]
    ) -> None:
        super().__init__(advantage=advantage, aggregator=aggregator, scale=scale)
        _check_critic_estimator(advantage)

    def _estimates(
        self, batch: TensorDict, names: tuple[str, ...], present: Tensor
    ) -> list[TensorDict]:
        """Return the results of the base class with each critic's values; write the returns."""
        values = batch["objective_values"]
        if values.shape[-1] != len(names):
            raise ShapeError(
                f"'objective_values' has shape {list(values.shape)}, but 'rewards' holds "
                f"{len(names)} objectives ({', '.join(names)})"
            )
        results = []
        for k, name in enumerate(names):
            rows = batch.exclude(*self.supplies).set("value", values[..., k])
            results.append(self._estimate(rows, batch["rewards"][name], present[:, k]))
        batch["objective_present"] = present.to(values.device)
        batch["objective_returns"] = torch.stack([rows["returns"] for rows in results], 2)
        return results
