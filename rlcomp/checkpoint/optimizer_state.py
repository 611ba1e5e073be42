"""The moments of an optimiser in a checkpoint, matched by the names of the parameters."""

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
    """A saved optimiser state for an optimiser that orders or groups parameters otherwise.

    Parameters are matched by the names that their groups hold, by index where they hold none, and
    keep the order in which they were first stepped. Hyperparameters are the own ones, but for the
    learning rate: it is where the schedule left it, until the schedule sets it for the next update.

    Args:
        learner: whose optimiser it is, for the message.
        saved: the ``state_dict`` of the optimiser that was saved.
        own: that of this run's.

    Returns:
        A ``state_dict`` to load.

    Raises:
        CheckpointError: the parameters are others, or one of them had an optimiser with other
            hyperparameters, whose moments mean something else.

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
    """Of each parameter its index, and the hyperparameters of its group."""
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


# Moments that torch's optimisers keep together: Adam and its kin, and Adamax.
_TOGETHER = ({"step", "exp_avg", "exp_avg_sq"}, {"step", "exp_avg", "exp_inf"})
# Adafactor's factors of a matrix: neither the matrix's shape nor one number.
_FACTORS = ("row_var", "col_var")
# Moments of squares and sizes in torch's optimisers, never below 0.
_SQUARES = (
    *("exp_avg_sq", "max_exp_avg_sq", "exp_inf", "sum", "square_avg", "acc_delta", "variance"),
    *_FACTORS,
)


def check_optimizer_state(saved: object) -> dict[str, Any]:
    """A saved optimiser state, once its types are checked.

    Raises:
        CheckpointError: it is not what an optimiser's ``state_dict`` gives; names the field.
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
    """The indices of a group's parameters, as many as it names."""
    indices: list[int] = field(group, "params", list[NonNegativeInt])
    if "param_names" in group and len(field(group, "param_names", list[str])) != len(indices):
        raise CheckpointError("'param_names' and 'params' differ in length")
    return indices


def _check_number(name: object, value: object) -> None:
    """A number among the moments, above all the count of steps."""
    number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    if isinstance(number, (int, float)) and not math.isfinite(number):
        raise CheckpointError(f"'{name}' is {number}: must be finite")
    if name == "step":
        dtype = value.dtype if isinstance(value, Tensor) else None
        # A count in float32 stays at 2^24: one more is rounded away.
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
    """Check that no moment is missing or has a shape that would spread over its parameter.

    What other optimisers than torch's and our own keep is not known, and not looked into.

    Args:
        state: moments by the parameters' indices.
        optimizer: whose they are to be.
        shape: of a parameter, of which the optimiser may have a part.

    Raises:
        CheckpointError: names the parameter's index and the moment.
    """
    known = type(optimizer).__module__.startswith(("torch.optim.", "rlcomp."))
    if not known or isinstance(optimizer, LBFGS):  # which keeps all parameters as one vector
        return
    parameters = [(n, p) for n, g in enumerate(optimizer.param_groups) for p in g["params"]]
    kept: dict[tuple[int, int], set[str]] = {}
    for index, (group, parameter) in enumerate(parameters):
        moments = state.get(index)
        if moments:
            neighbours = kept.setdefault((group, parameter.dim()), {*moments})
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
    """Check that a moment is finite, and at least 0 if it is of squares."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return
    if not bool(value.isfinite().all()):
        raise CheckpointError(f"'{name}' of parameter {index} is not finite: no run writes that")
    if name in _SQUARES and bool((value < 0).any()):
        raise CheckpointError(f"'{name}' of parameter {index} is below 0: no run writes that")


def _check_shape(index: int, name: str, value: object, wanted: list[int]) -> None:
    """Tensors have the parameter's shape; single numbers are counts and the like, not moments."""
    shape = list(value.shape) if isinstance(value, Tensor) else []
    single = not shape and not name.startswith("exp_")
    if not single and name not in _FACTORS and shape != wanted:
        raise CheckpointError(f"'{name}' of parameter {index} is {shape}: must be {wanted}")
