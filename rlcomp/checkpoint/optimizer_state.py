"""Saved optimiser state: checks, and matching by the names of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import LBFGS, Optimizer

from rlcomp.arguments import NonNegativeFloat, NonNegativeInt
from rlcomp.checkpoint.state_fields import check_fields, field
from rlcomp.errors import CheckpointError

State = dict[str, Any]


def match_optimizer_state(learner: str, saved: State, current: State) -> State:
    """Convert a saved optimiser state for an optimiser with other groups or another order.

    Parameters are matched by the names in their groups, or by index if there are no names. In the
    result, moments have the parameters' indices in this run. Hyperparameters keep the values of
    this run, except the learning rate: a group takes the saved learning rate of its first
    parameter, until the next update sets it.

    Args:
        learner: name of the learner, for the message.
        saved: the saved ``state_dict``.
        current: the ``state_dict`` of this run's optimiser.

    Returns:
        A ``state_dict`` to load.

    Raises:
        CheckpointError: the parameters differ, or the names of the hyperparameters of a parameter's
            group differ: then its moments are of another optimiser.

    Examples:
        >>> saved = {
        ...     "state": {0: "of a", 1: "of b"},
        ...     "param_groups": [{"params": [0, 1], "param_names": ["a", "b"]}],
        ... }
        >>> current = {
        ...     "state": {},
        ...     "param_groups": [{"params": [0, 1], "param_names": ["b", "a"]}],
        ... }
        >>> match_optimizer_state("learner", saved, current)["state"]
        {1: 'of a', 0: 'of b'}
    """
    before, after = _by_name(saved), _by_name(current)
    for name in sorted(before.keys() | after.keys(), key=str):
        if name not in before or name not in after:
            raise CheckpointError(
                f"{learner}.optimizer: only {'this run' if name in after else 'the checkpoint'} "
                f"trains {name}; resume with the config of the checkpoint"
            )
        was, now = before[name][1], after[name][1]
        if was != now:
            raise CheckpointError(
                f"{learner}.optimizer is another than in the checkpoint: for {name} it had "
                f"{', '.join(sorted(was - now)) or 'nothing more'} there, has "
                f"{', '.join(sorted(now - was)) or 'nothing more'} here; resume with the optimizer "
                "of the checkpoint, or start a new run from its weights"
            )
    names = {index: name for name, (index, _) in before.items()}
    state = {after[names[index]][0]: moments for index, moments in saved["state"].items()}
    rates = _rates(saved)
    groups = [
        {**group, "lr": rates.get(next(iter(_names(group)), None), group["lr"])}
        if "lr" in group
        else group
        for group in current["param_groups"]
    ]
    return {"state": state, "param_groups": groups}


def _by_name(state: State) -> dict[Any, tuple[int, frozenset[str]]]:
    """Return, by parameter, its index and the names of the hyperparameters of its group."""
    return {
        name: (index, frozenset(group) - {"params", "param_names"})
        for group in state["param_groups"]
        for name, index in zip(_names(group), group["params"], strict=True)
    }


def _names(group: State) -> list[Any]:
    """Return the names of a group's parameters, or their indices if they have no names."""
    return list(group["param_names" if "param_names" in group else "params"])


def _rates(state: State) -> dict[Any, float]:
    """Return the learning rate of each parameter."""
    groups = [group for group in state["param_groups"] if "lr" in group]
    return {
        name: field(group, "lr", NonNegativeFloat) for group in groups for name in _names(group)
    }


# Complete sets of moments in torch's optimisers: Adam and its variants, and Adamax.
_COMPLETE = ({"step", "exp_avg", "exp_avg_sq"}, {"step", "exp_avg", "exp_inf"})
# Adafactor's factors of a matrix: vectors.
_FACTORS = ("row_var", "col_var")
# Moments of torch's optimisers that are never negative.
_NON_NEGATIVE = (
    *("exp_avg_sq", "max_exp_avg_sq", "exp_inf", "sum", "square_avg", "acc_delta", "variance"),
    *_FACTORS,
)


def check_optimizer_state(saved: object) -> dict[str, Any]:
    """Return a saved optimiser state after checking its types.

    Raises:
        CheckpointError: the state is no ``state_dict`` of an optimiser; the message names the
            field.
    """
    check_fields(saved, ("state", "param_groups"))
    assert isinstance(saved, dict)
    indices = [
        index
        for group in field(saved, "param_groups", list[dict[str, object]])
        for index in _parameters(group)
    ]
    if len({*indices}) < len(indices):
        raise CheckpointError("'params' has a parameter twice")
    for index in field(saved, "state", dict):
        if index not in indices:
            raise CheckpointError(f"'state' has parameter {index!r:.20}, but no group has it")
        for name, value in field(saved["state"], index, dict).items():
            _check_number(name, value)
    return saved


def _parameters(group: Mapping[str, Any]) -> list[int]:
    """Return the indices of a group's parameters; check that each has a name, or none has."""
    indices: list[int] = field(group, "params", list[NonNegativeInt])
    if "param_names" in group and len(field(group, "param_names", list[str])) != len(indices):
        raise CheckpointError("'param_names' and 'params' differ in length")
    return indices


def _check_number(name: object, value: object) -> None:
    """Check that a value of one number is finite, and that ``step`` is a count."""
    number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    if isinstance(number, (int, float)) and not math.isfinite(number):
        raise CheckpointError(f"'{name}' is {number}: must be finite")
    if name == "step":
        dtype = value.dtype if isinstance(value, Tensor) else None
        # A count in float32 cannot exceed 2^24: the next number is rounded.
        limit = 2**24 if dtype == torch.float32 else 2**53
        if not _is_count(number, limit):
            raise CheckpointError(
                f"'step' is {value!r:.60}: must be a number of steps, from 0 to {limit:,}"
            )


def _is_count(number: object, limit: int) -> bool:
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        return False
    return 0 <= number <= limit and float(number).is_integer()


def check_moments(
    state: Mapping[int, Mapping[str, object]],
    optimizer: Optimizer,
    shape: Callable[[Tensor], torch.Size] = lambda parameter: parameter.shape,
) -> None:
    """Check that no moment is missing, or has a shape or values that no run writes.

    Parameters of one group and one number of dimensions must have the same moments. A moment of
    another shape would broadcast over its parameter. Only optimisers of torch and of rlcomp are
    checked.

    Args:
        state: moments by index of the parameter.
        optimizer: the optimiser that will load them.
        shape: returns the shape of the whole parameter, if the optimiser has a part of it.

    Raises:
        CheckpointError: a moment is missing, has another shape, is not finite, or is a negative
            mean of squares; the message names the parameter's index and the moment.
    """
    is_known = type(optimizer).__module__.startswith(("torch.optim.", "rlcomp."))
    if not is_known or isinstance(optimizer, LBFGS):  # LBFGS has all parameters as one vector
        return
    parameters = [(n, p) for n, g in enumerate(optimizer.param_groups) for p in g["params"]]
    names: dict[tuple[int, int], set[str]] = {}  # of the moments, by group and dimensions
    for index, (group, parameter) in enumerate(parameters):
        moments = state.get(index)
        if moments:
            expected = names.setdefault((group, parameter.dim()), {*moments})
            _check_complete(index, {*moments}, expected)
            for name, value in moments.items():
                _check_shape(index, name, value, list(shape(parameter)))
                _check_values(index, name, value)


def _check_complete(index: int, moments: set[str], expected: set[str]) -> None:
    """Check the names of a parameter's moments against torch's sets and the expected names."""
    partial = {"exp_avg", "exp_avg_sq"} & moments and not any(s <= moments for s in _COMPLETE)
    if partial or moments != expected:
        raise CheckpointError(
            f"parameter {index} has the moments {', '.join(sorted(moments))}: one is missing"
        )


def _check_values(index: int, name: str, value: object) -> None:
    """Check that a moment is finite, and non-negative if it is a mean of squares."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return
    if not bool(value.isfinite().all()):
        raise CheckpointError(f"'{name}' of parameter {index} is not finite: no run writes that")
    if name in _NON_NEGATIVE and bool((value < 0).any()):
        raise CheckpointError(f"'{name}' of parameter {index} is below 0: no run writes that")


def _check_shape(index: int, name: str, value: object, expected: list[int]) -> None:
    """Check that a moment has the shape of its parameter.

    Two kinds have other shapes: a single number, which is a count, and Adafactor's factors.
    """
    shape = list(value.shape) if isinstance(value, Tensor) else []
    single = not shape and not name.startswith("exp_")
    if not single and name not in _FACTORS and shape != expected:
        raise CheckpointError(f"'{name}' of parameter {index} is {shape}: must be {expected}")
