"""Objective statistics for aggregators: mean rewards, and moments of the objectives' vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.errors import ConfigError
from rlcomp.functional.group import group_centred
from rlcomp.pareto.aggregator import Objectives


@runtime_checkable
class MultiObjectiveStage(Protocol):
    """A stage that computes every objective's reward without aggregating them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the objectives, in the order of ``rewards``."""
        ...

    def per_objective(self, batch: TensorDict) -> TensorDict:
        """Return every objective of a batch, unweighted: ``{name: [B]}``, NaN where missing."""
        ...


def as_multi_objective(objectives: object, remedy: str) -> MultiObjectiveStage:
    """Return the stage; raise ConfigError with the remedy if it has only one objective."""
    if not isinstance(objectives, MultiObjectiveStage):
        raise ConfigError(
            f"objectives is a {type(objectives).__name__}: there is one objective only; add one, "
            f"such as +objective=brevity, or {remedy}"
        )
    return objectives


def stack_rewards(rewards: TensorDict) -> tuple[tuple[str, ...], Tensor]:
    """Return the names, and the rewards ``[B, K]``, float64, on the CPU, NaN where missing.

    Examples:
        >>> rewards = TensorDict({"right": torch.ones(2), "short": torch.zeros(2)}, batch_size=[2])
        >>> stack_rewards(rewards)[0]
        ('right', 'short')
    """
    names = tuple(rewards.keys())
    columns = [rewards[name].detach().double().cpu() for name in names]
    return names, torch.stack(columns, 1)


def centre_rewards(rewards: Tensor, group_id: Tensor) -> Tensor:
    """Subtract each group's mean from rewards ``[B, K]``, over the ``N`` rows without a NaN.

    Returns:
        Shape ``[K, N]``, one row for each objective.

    Examples:
        >>> rewards = torch.tensor([[1.0, 5.0], [0.0, 7.0], [1.0, torch.nan]])
        >>> centre_rewards(rewards, torch.zeros(3, dtype=torch.int64))
        tensor([[ 0.5000, -0.5000],
                [-1.0000,  1.0000]])
    """
    complete = ~rewards.isnan().any(1)
    group_id = group_id.to(rewards.device)[complete]
    valid = torch.ones_like(group_id, dtype=torch.bool)
    return torch.stack([group_centred(column, group_id, valid) for column in rewards[complete].T])


def objective_statistics(
    names: Sequence[str],
    rewards: Tensor,
    vectors: Tensor,
    preference: Tensor | None,
    units: Tensor | None = None,
) -> Objectives:
    """Compute the objective statistics of a batch; sums over ``N`` are divided by ``N``.

    Args:
        names: names of the ``K`` objectives.
        rewards: shape ``[B, K]``, NaN where a row lacks an objective.
        vectors: vector of each objective, such as its centred rewards, shape ``[K, N]``; ``N`` may
            be 0.
        preference: weight of each objective in each row, shape ``[B, K]``, or None.
        units: the divisor by which the caller has divided each vector, shape ``[K]``, in reward
            units; None if the vectors are undivided. It is passed on: nothing is divided here.

    Examples:
        >>> rewards = torch.tensor([[1.0, torch.nan], [0.0, 3.0]])
        >>> vectors = torch.tensor([[1.0, -1.0], [2.0, 0.0]])
        >>> statistics = objective_statistics(["a", "b"], rewards, vectors, None)
        >>> statistics.returns.tolist(), statistics.gram.tolist()
        ([0.5, 3.0], [[1.0, 1.0], [1.0, 2.0]])
    """
    vectors = vectors.detach().double().cpu()
    count = max(vectors.shape[1], 1)
    return Objectives(
        names=tuple(names),
        returns=rewards.detach().double().cpu().nanmean(0),
        means=vectors.sum(1) / count,
        gram=vectors @ vectors.T / count,
        preference=None if preference is None else preference.detach().double().cpu(),
        units=None if units is None else units.detach().double().cpu(),
    )
