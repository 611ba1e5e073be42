"""Aggregators: base class of scalarisations and gradient aggregation for several objectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from rlcomp.arguments import Checked
from rlcomp.errors import ConfigError, NumericalError, nearest
from rlcomp.functional.min_norm import ENUMERATED, cosines, stationarity_gap
from rlcomp.metrics import record


@dataclass(frozen=True)
class Objectives:
    """Statistics of ``K`` objectives, the input of an aggregator; all float64, on the CPU.

    Each objective is a vector: its rewards over the rows of a batch, its advantages over the
    tokens, or its gradient over the parameters.

    Attributes:
        names: names of the ``K`` objectives.
        returns: mean reward of each over the rows that have it, shape ``[K]``, in reward units; NaN
            if no row of the batch has it.
        means: mean entry of each vector, shape ``[K]``.
        gram: inner products of the vectors, shape ``[K, K]``.
        preference: weight of each objective for each row, shape ``[B, K]``; None unless the policy
            is conditioned on it.
        units: divisor of each vector, shape ``[K]``, in reward units; None for no division.
    """

    names: tuple[str, ...]
    returns: Tensor
    means: Tensor
    gram: Tensor
    preference: Tensor | None = None
    units: Tensor | None = None


class Aggregator(nn.Module, metaclass=Checked):
    """Base class of aggregators: weights ``w_k`` for rewards, advantages or gradients.

    State is in buffers, so that checkpoints hold it.

    Class attributes:
        of_returns: True if the weights are derivatives by returns (``dg/dJ``), which refer to
            vectors in reward units. :func:`weighed` then multiplies the vectors by their divisors.
    """

    of_returns: ClassVar[bool] = False

    def check(self, names: Sequence[str]) -> None:
        """Refuse unknown objectives before a run.

        Raises:
            ConfigError: an argument names other objectives.
        """

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weight of each objective in their sum, shape ``[K]``, or ``[B, K]`` by row."""
        raise NotImplementedError


Place = Literal["reward", "advantage", "gradient"]

# A cosine above this is no conflict: the errors of solvers and their regularisation are as large.
CONFLICT = -1e-3


def weighed(aggregator: Aggregator, objectives: Objectives, place: Place = "reward") -> Tensor:
    """Compute the aggregator's weights; check, record and rescale them.

    Records under ``pareto/<place>/``: ``weight/<name>``; ``return/<name>``; ``conflict/<name>``, 1
    if the cosine of the weighted sum and the objective's vector is below -1e-3;
    ``worst_cosine``, the smallest cosine of the sum with a vector that is not 0; ``gap``, the norm
    of the shortest convex combination of the vectors that are not 0 over the norm of the longest
    one. The gap is 0 if no direction improves all objectives (Pareto-stationary), and is recorded
    for at most 8 vectors.

    Args:
        aggregator: computes the weights.
        objectives: its input.
        place: the weighted quantity; a run may have several.

    Returns:
        Factors of the vectors in ``objectives``: shape ``[K]`` or ``[B, K]``, float64. For an
        aggregator of returns a factor is its weight times the unit.

    Raises:
        NumericalError: a vector, a return or a weight is not finite. The message names the
            objective.
    """
    _check_finite(objectives)
    objectives, units = _convert_units(aggregator, objectives)
    weights = aggregator.weigh(objectives)
    _check_weights(aggregator, objectives, weights)
    _record(place, objectives, weights.mean(0) if weights.ndim == 2 else weights)
    return weights * units


def _convert_units(aggregator: Aggregator, objectives: Objectives) -> tuple[Objectives, Tensor]:
    """Return the objectives in the units the aggregator expects, and the factors applied."""
    units = objectives.units
    if units is None or not aggregator.of_returns:
        return objectives, torch.ones(len(objectives.names), dtype=torch.float64)
    undivided = replace(
        objectives,
        means=objectives.means * units,
        gram=objectives.gram * torch.outer(units, units),
        units=None,
    )
    return undivided, units


def _check_finite(objectives: Objectives) -> None:
    squares, returns = objectives.gram.diagonal(), objectives.returns
    for name, own, mean in zip(objectives.names, squares, returns, strict=True):
        if not bool(own.isfinite()):
            raise NumericalError(f"objective {name!r}: its rewards or gradients are not finite")
        if bool(mean.isinf()):
            raise NumericalError(f"objective {name!r}: its mean reward is {float(mean)}")


def _check_weights(aggregator: Aggregator, objectives: Objectives, weights: Tensor) -> None:
    finite = weights.isfinite().reshape(-1, len(objectives.names)).all(0)
    for name, fine in zip(objectives.names, finite, strict=True):
        if not bool(fine):
            raise NumericalError(
                f"objective {name!r}: the weight that {type(aggregator).__name__} gives it is not "
                "finite"
            )


def _record(place: Place, objectives: Objectives, weights: Tensor) -> None:
    cosine, active = cosines(objectives.gram, weights), nonzero_vectors(objectives)
    for index, name in enumerate(objectives.names):
        record(f"pareto/{place}/weight/{name}", float(weights[index]))
        record(f"pareto/{place}/conflict/{name}", float(cosine[index] < CONFLICT))
        if bool(objectives.returns[index].isfinite()):
            record(f"pareto/{place}/return/{name}", float(objectives.returns[index]))
    if bool(active.any()):
        record(f"pareto/{place}/worst_cosine", float(cosine[active].min()))
    # More vectors would need a QP solver, only for a metric.
    if 0 < int(active.sum()) <= ENUMERATED:
        record(f"pareto/{place}/gap", stationarity_gap(objectives.gram[active][:, active]))


def nonzero_vectors(objectives: Objectives) -> Tensor:
    """Return the mask of objectives whose vector is not 0, bool, ``[K]``."""
    return objectives.gram.diagonal() > 0


def named_weights(owner: str, weights: Mapping[str, float] | None, names: Iterable[str]) -> Tensor:
    """Return named weights as a tensor in the objectives' order; ``1 / K`` each if None.

    Args:
        owner: the caller, for the error.
        weights: a factor for each objective, or None.
        names: names of the ``K`` objectives.

    Returns:
        Shape ``[K]``, float64.

    Raises:
        ConfigError: a weight names no objective, or an objective has no weight.

    Examples:
        >>> named_weights("Linear", {"short": 0.25, "right": 0.75}, ["right", "short"]).tolist()
        [0.75, 0.25]
    """
    names = list(names)
    if weights is None:
        return torch.full((len(names),), 1 / len(names), dtype=torch.float64)
    check_names(owner, "weights", weights, names)
    return torch.tensor([weights[name] for name in names], dtype=torch.float64)


def check_names(owner: str, argument: str, given: Iterable[str], names: Iterable[str]) -> None:
    """Refuse names that do not match the objectives one for one.

    Raises:
        ConfigError: a name is unknown or missing.
    """
    given, names = list(given), list(names)
    for name in given:
        if name not in names:
            raise ConfigError(f"{owner}: {argument} names {name!r}{nearest(name, names)}")
    for name in names:
        if name not in given:
            raise ConfigError(f"{owner}: the objective {name!r} is not in {argument}: add it")
