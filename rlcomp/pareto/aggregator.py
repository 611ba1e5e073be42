"""Base classes of aggregators, and their weights for several objectives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from rlcomp.arguments import Checked
from rlcomp.checkpoint.state_fields import field
from rlcomp.errors import ConfigError, NumericalError, nearest
from rlcomp.functional.min_norm import MAX_SUPPORT_SEARCH, cosines, stationarity_gap
from rlcomp.metrics import record


@dataclass(frozen=True)
class Objectives:
    """Statistics of ``K`` objectives, the input of an aggregator; all float64, on the CPU.

    Each objective is a vector: its rewards over the rows of a batch, its advantages over the
    tokens, or its gradient over the parameters.

    Attributes:
        names: names of the objectives.
        returns: mean reward of each over the rows that have it, ``[K]``; NaN if no row has it.
        means: mean entry of each vector, ``[K]``.
        gram: inner products of the vectors, ``[K, K]``.
        preference: weight of each objective for each row, ``[B, K]``; None unless the policy is
            conditioned on it.
        units: divisor of each vector, ``[K]``, in reward units; None for no division.
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
    """

    # True if the weights are derivatives dg/dJ of a utility g of the mean returns J: factors of
    # vectors in reward units. :func:`aggregation_weights` then undoes the vectors' division.
    reward_units: ClassVar[bool] = False

    def check(self, names: Sequence[str]) -> None:
        """Raise ConfigError if an argument names objectives that are not among the names."""

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weight of each objective in their sum, ``[K]``, or ``[B, K]`` by row."""
        raise NotImplementedError


class RunningMeans(nn.Module):
    """Named exponential moving averages (EMA), initialised with the first value.

    The names are known only during the run: hence the averages are run state and not buffers.

    Args:
        decay: weight of the past; 0 keeps the last value only.

    Examples:
        >>> means = RunningMeans(0.5)
        >>> means.update("right", 1.0), means.update("right", 0.0)
        (1.0, 0.5)
        >>> means.get("short") is None
        True
    """

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.values: dict[str, float] = {}

    def get(self, name: str) -> float | None:
        """Return the current average; None before the first value."""
        return self.values.get(name)

    def update(self, name: str, value: float) -> float:
        """Update with a value; return the new average."""
        past = self.values.get(name, value)
        self.values[name] = self.decay * past + (1 - self.decay) * value
        return self.values[name]

    def run_state(self) -> dict[str, float]:
        """Return the averages, for a checkpoint."""
        return dict(self.values)

    def load_run_state(self, state: dict[str, float]) -> None:
        """Restore the averages from a checkpoint."""
        self.values = {name: field(state, name, float) for name in state}


class ExpectedReturnsAggregator(Aggregator):
    """Aggregator on scalarised expected returns (SER): running mean returns J, and the highest J.

    A batch without an objective leaves its J unchanged.

    Args:
        decay: weight of the past in J; 0 for the mean of the batch alone.
    """

    reward_units = True

    def __init__(self, *, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.returns = RunningMeans(decay)
        self.best = RunningMeans(0.0)  # without a past: it keeps the last value

    def update_returns(self, objectives: Objectives) -> tuple[Tensor, Tensor]:
        """Update with a batch; return J and the highest J so far, ``[K]`` each.

        NaN for objectives that no batch has had yet.
        """
        for name, value in zip(objectives.names, objectives.returns.tolist(), strict=True):
            if not math.isnan(value):
                mean, best = self.returns.update(name, value), self.best.get(name)
                self.best.update(name, mean if best is None else max(mean, best))
        return _as_tensor(self.returns, objectives), _as_tensor(self.best, objectives)


def _as_tensor(means: RunningMeans, objectives: Objectives) -> Tensor:
    current = [means.get(name) for name in objectives.names]
    values = [torch.nan if value is None else value for value in current]
    return torch.tensor(values, dtype=torch.float64)


RowNorm = Literal["none", "unit", "ema"]

# Weight of the past in the running norms.
NORM_DECAY = 0.9


class GramianAggregator(Aggregator):
    """Aggregator on the Gram matrix of the (normalised) vectors (MGDA, UPGrad, Nash-MTL, ...).

    ``w_i = v_i * mean(n) / n_i`` with ``v`` the weights computed on ``g_i / n_i``, so that
    ``sum_i w_i g_i = mean(n) * sum_i v_i (g_i / n_i)``.

    A zero vector (objective missing from the batch, or equal rewards in every group) gets weight 0;
    a single non-zero vector gets weight 1.

    Args:
        row_norm: the norms ``n_i``. ``"none"``: the root mean square of the non-zero norms, for all
            vectors; ``"unit"``: the norm of each vector; ``"ema"``: a running mean of it.
    """

    def __init__(self, *, row_norm: RowNorm) -> None:
        super().__init__()
        self.row_norm: RowNorm = row_norm
        self.norms = RunningMeans(NORM_DECAY)

    def gram_weights(self, gram: Tensor) -> Tensor:
        """Return the weights ``[K]`` of two or more non-zero vectors ``g_i / n_i``."""
        raise NotImplementedError

    def weigh(self, objectives: Objectives) -> Tensor:
        """Return the weights of the objectives, ``[K]``."""
        active = nonzero_vectors(objectives)
        weights = torch.zeros(len(objectives.names), dtype=torch.float64)
        if int(active.sum()) <= 1:
            return active.double()
        gram = objectives.gram[active][:, active]
        norms = self._norms(objectives, active)
        scales = norms.mean() / norms
        weights[active] = self.gram_weights(gram / torch.outer(norms, norms)) * scales
        return weights

    def _norms(self, objectives: Objectives, active: Tensor) -> Tensor:
        """Return the norms ``n_i`` of the non-zero vectors."""
        norms = objectives.gram.diagonal()[active].sqrt()
        if self.row_norm == "none":
            return norms.square().mean().sqrt().expand(len(norms))
        if self.row_norm == "ema":
            names = [n for n, nonzero in zip(objectives.names, active, strict=True) if nonzero]
            pairs = zip(names, norms.tolist(), strict=True)
            running = [self.norms.update(name, norm) for name, norm in pairs]
            return torch.tensor(running, dtype=torch.float64)
        return norms


Quantity = Literal["reward", "advantage", "gradient"]

# A cosine above this is no conflict: the errors of solvers and their regularisation are as large.
CONFLICT = -1e-3


def aggregation_weights(
    aggregator: Aggregator, objectives: Objectives, quantity: Quantity = "reward"
) -> Tensor:
    """Compute the aggregator's weights, ``[K]`` or ``[B, K]``, float64; check and record them.

    The weights are factors of the vectors in ``objectives``: an aggregator in reward units has its
    weights multiplied by the vectors' divisors.

    Records under ``pareto/<quantity>/``: ``weight/<name>``, before this multiplication and averaged
    over rows; ``return/<name>``, if a row has the objective; ``conflict/<name>``, 1 if the cosine
    of the weighted sum and the objective's vector is below -1e-3; ``worst_cosine``, the smallest
    cosine of the sum with a vector that is not 0; ``gap``, the Pareto-stationarity gap of the
    vectors that are not 0, for at most 8 of them.

    Raises:
        NumericalError: a vector or a weight is not finite, or a return is infinite.
    """
    _check_finite(objectives)
    objectives, units = _convert_units(aggregator, objectives)
    weights = aggregator.weigh(objectives)
    _check_weights(aggregator, objectives, weights)
    _record(quantity, objectives, weights.mean(0) if weights.ndim == 2 else weights)
    return weights * units


def _convert_units(aggregator: Aggregator, objectives: Objectives) -> tuple[Objectives, Tensor]:
    """Return the objectives in the aggregator's units, and the factors of the conversion."""
    units = objectives.units
    if units is None or not aggregator.reward_units:
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
    for name, square, mean in zip(objectives.names, squares, returns, strict=True):
        if not bool(square.isfinite()):
            raise NumericalError(f"objective {name!r}: its rewards or gradients are not finite")
        if bool(mean.isinf()):
            raise NumericalError(f"objective {name!r}: its mean reward is {float(mean)}")


def _check_weights(aggregator: Aggregator, objectives: Objectives, weights: Tensor) -> None:
    mask = weights.isfinite().reshape(-1, len(objectives.names)).all(0)
    for name, is_finite in zip(objectives.names, mask, strict=True):
        if not bool(is_finite):
            raise NumericalError(
                f"objective {name!r}: the weight that {type(aggregator).__name__} gives it is not "
                "finite"
            )


def _record(quantity: Quantity, objectives: Objectives, weights: Tensor) -> None:
    cosine, active = cosines(objectives.gram, weights), nonzero_vectors(objectives)
    for index, name in enumerate(objectives.names):
        record(f"pareto/{quantity}/weight/{name}", float(weights[index]))
        record(f"pareto/{quantity}/conflict/{name}", float(cosine[index] < CONFLICT))
        if bool(objectives.returns[index].isfinite()):
            record(f"pareto/{quantity}/return/{name}", float(objectives.returns[index]))
    if bool(active.any()):
        record(f"pareto/{quantity}/worst_cosine", float(cosine[active].min()))
    # More vectors would need a QP solver, only for a metric.
    if 0 < int(active.sum()) <= MAX_SUPPORT_SEARCH:
        record(f"pareto/{quantity}/gap", stationarity_gap(objectives.gram[active][:, active]))


def nonzero_vectors(objectives: Objectives) -> Tensor:
    """Return the mask of objectives whose vector is not 0, bool, ``[K]``."""
    return objectives.gram.diagonal() > 0


def named_weights(owner: str, weights: Mapping[str, float] | None, names: Iterable[str]) -> Tensor:
    """Return named weights in the objectives' order, ``[K]``, float64; ``1 / K`` each if None.

    ``owner`` is the caller, for the error. ConfigError if a weight names no objective, or an
    objective has no weight.

    Examples:
        >>> named_weights("Linear", {"short": 0.25, "right": 0.75}, ["right", "short"]).tolist()
        [0.75, 0.25]
    """
    names = list(names)
    if weights is None:
        return torch.full((len(names),), 1 / len(names), dtype=torch.float64)
    check_names(owner, "weights", weights, names)
    return torch.tensor([weights[name] for name in names], dtype=torch.float64)


def check_names(owner: str, argument: str, keys: Iterable[str], names: Iterable[str]) -> None:
    """Raise ConfigError if the keys of an argument are not the objectives, one for one."""
    keys, names = list(keys), list(names)
    for key in keys:
        if key not in names:
            raise ConfigError(f"{owner}: {argument} names {key!r}{nearest(key, names)}")
    for name in names:
        if name not in keys:
            raise ConfigError(f"{owner}: the objective {name!r} is not in {argument}: add it")
