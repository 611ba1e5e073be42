"""Optimiser state of a checkpoint: checks, and matching by the names of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import LBFGS, Optimizer

from rlcomp.arguments import NonNegativeFloat, NonNegativeInt
from rlcomp.checkpoint.state_fields import field, names
from rlcomp.errors import CheckpointError

State = dict[str, Any]


def match_optimizer_state(learner: str, saved: State, own: State) -> State:
    """Convert a saved optimiser state for an optimiser with other groups or another order.

    Parameters are matched by the names in their groups, or by index where groups have no names.
    They keep the order in which they were first stepped. Hyperparameters are those of this run, but
    for the learning rate: it stays where the schedule left it until the next update.

    Args:
        learner: name of the learner, for the message.
        saved: the ``state_dict`` of the optimiser that was saved.
        own: the ``state_dict`` of this run's optimiser.

    Returns:
        A ``state_dict`` to load.

    Raises:
        CheckpointError: the parameters differ, or one of them had an optimiser with other
            hyperparameters, so that its moments mean something else.

    Examples:
        >>> saved = {
        ...     "state": {0: "of a", 1: "of b"},
        ...     "param_groups": [{"params": [0, 1], "param_names": ["a", "b"]}],
        ... }
        >>> own = {
        ...     "state": {},
        ...     "param_groups": [{"params": [0, 1], "param_names": ["b", "a"]}],
        ... }
        >>> match_optimizer_state("learner", saved, own)["state"]
        {1: 'of a', 0: 'of b'}
    """
    there, here = _by_name(saved), _by_name(own)
    for name in sorted(there.keys() | here.keys(), key=str):
        if name not in there or name not in here:
            raise CheckpointError(
                f"{learner}.optimizer: only {'this run' if name in here else 'the checkpoint'} "
                f"trains {name}; resume with the config of the checkpoint"
            )
        was, now = there[name][1], here[name][1]
        if was != now:
            raise CheckpointError(
                f"{learner}.optimizer is another than in the checkpoint: for {name} it had "
                f"{', '.join(sorted(was - now)) or 'nothing more'} there, has "
                f"{', '.join(sorted(now - was)) or 'nothing more'} here; resume with the optimizer "
                "of the checkpoint, or start a new run from its weights"
            )
    names = {index: name for name, (index, _) in there.items()}
    state = {here[names[index]][0]: moments for index, moments in saved["state"].items()}
    rates = _rates(saved)
    groups = [
        {**group, "lr": rates.get(next(iter(_names(group)), None), group["lr"])}
        if "lr" in group
        else group
        for group in own["param_groups"]
    ]
    return {"state": state, "param_groups": groups}


def _by_name(state: State) -> dict[Any, tuple[int, frozenset[str]]]:
    """Return, by parameter, its index and the hyperparameters of its group."""
    return {
        name: (index, frozenset(group) - {"params", "param_names"})
        for group in state["param_groups"]
        for name, index in zip(_names(group), group["params"], strict=True)
    }


def _names(group: State) -> list[Any]:
    """Return the names of a group's parameters; their indices without names."""
    return list(group["param_names" if "param_names" in group else "params"])


def _rates(state: State) -> dict[Any, float]:
    """Return the learning rate of each parameter."""
    groups = [group for group in state["param_groups"] if "lr" in group]
    return {
        name: field(group, "lr", NonNegativeFloat) for group in groups for name in _names(group)
    }


# Moments that torch's optimisers have together: Adam and its variants, and Adamax.
_TOGETHER = ({"step", "exp_avg", "exp_avg_sq"}, {"step", "exp_avg", "exp_inf"})
# Adafactor's factors of a matrix: vectors, of another shape than the matrix.
_FACTORS = ("row_var", "col_var")
# Moments of squares and sizes in torch's optimisers: at least 0.
_SQUARES = (
    *("exp_avg_sq", "max_exp_avg_sq", "exp_inf", "sum", "square_avg", "acc_delta", "variance"),
    *_FACTORS,
)


def check_optimizer_state(saved: object) -> dict[str, Any]:
    """Check the types of a saved optimiser state, and return it.

    Raises:
        CheckpointError: it is no ``state_dict`` of an optimiser; names the field.
    """
    names(saved, ("state", "param_groups"))
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
            raise CheckpointError(f"'state' is of parameter {index!r:.20}, which no group has")
        for name, value in field(saved["state"], index, dict).items():
            _check_number(name, value)
    return saved


def _parameters(group: Mapping[str, Any]) -> list[int]:
    """Return the indices of a group's parameters; refuse another number of names."""
    indices: list[int] = field(group, "params", list[NonNegativeInt])
    if "param_names" in group and len(field(group, "param_names", list[str])) != len(indices):
        raise CheckpointError("'param_names' and 'params' differ in length")
    return indices


def _check_number(name: object, value: object) -> None:
    """Check a number among the moments, above all the count of steps."""
    number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    if isinstance(number, (int, float)) and not math.isfinite(number):
        raise CheckpointError(f"'{name}' is {number}: must be finite")
    if name == "step":
        dtype = value.dtype if isinstance(value, Tensor) else None
        # A count in float32 cannot exceed 2^24: the next number is rounded.
        most = 2**24 if dtype == torch.float32 else 2**53
        if not _is_count(number, most):
            raise CheckpointError(
                f"'step' is {value!r:.60}: must be a number of steps, from 0 to {most:,}"
            )


def _is_count(number: object, most: int) -> bool:
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        return False
    return 0 <= number <= most and float(number).is_integer()


def check_moment_shapes(
    state: Mapping[int, Mapping[str, object]],
    optimizer: Optimizer,
    shape: Callable[[Tensor], torch.Size] = lambda parameter: parameter.shape,
) -> None:
    """Check that no moment is missing or has a shape that would broadcast over its parameter.

    Only optimisers of torch and of this package are checked.

    Args:
        state: moments by the parameters' indices.
        optimizer: will load them.
        shape: shape of a whole parameter; the optimiser may hold a part of it.

    Raises:
        CheckpointError: names the parameter's index and the moment.
    """
    known = type(optimizer).__module__.startswith(("torch.optim.", "rlcomp."))
    if not known or isinstance(optimizer, LBFGS):  # has all parameters as one vector
        return
    parameters = [(n, p) for n, g in enumerate(optimizer.param_groups) for p in g["params"]]
    groups: dict[tuple[int, int], set[str]] = {}
    for index, (group, parameter) in enumerate(parameters):
        moments = state.get(index)
        if moments:
            neighbours = groups.setdefault((group, parameter.dim()), {*moments})
            _check_complete(index, {*moments}, neighbours)
            for name, value in moments.items():
                _check_shape(index, name, value, list(shape(parameter)))
                _check_values(index, name, value)


def _check_complete(index: int, moments: set[str], neighbours: set[str]) -> None:
    alone = {"exp_avg", "exp_avg_sq"} & moments and not any(s <= moments for s in _TOGETHER)
    if alone or moments != neighbours:
        raise CheckpointError(
            f"parameter {index} has the moments {', '.join(sorted(moments))}: one is missing"
        )


def _check_values(index: int, name: str, value: object) -> None:
    """Check that a moment is finite, and at least 0 if it is a mean of squares."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return
    if not bool(value.isfinite().all()):
        raise CheckpointError(f"'{name}' of parameter {index} is not finite: no run writes that")
    if name in _SQUARES and bool((value < 0).any()):
        raise CheckpointError(f"'{name}' of parameter {index} is below 0: no run writes that")


def _check_shape(index: int, name: str, value: object, wanted: list[int]) -> None:
    """Check that a tensor has its parameter's shape; single numbers are counts, not moments."""
    shape = list(value.shape) if isinstance(value, Tensor) else []
    single = not shape and not name.startswith("exp_")
    if not single and name not in _FACTORS and shape != wanted:
        raise CheckpointError(f"'{name}' of parameter {index} is {shape}: must be {wanted}")
