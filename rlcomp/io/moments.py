"""The moments of an optimiser in a checkpoint, matched by the names of the parameters."""

from __future__ import annotations

from typing import Any

from rlcomp.arguments import NonNegativeFloat
from rlcomp.errors import CheckpointError
from rlcomp.io.fields import field

State = dict[str, Any]


def matched_moments(learner: str, saved: State, own: State) -> State:
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
        >>> matched_moments("learner", saved, own)["state"]
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
