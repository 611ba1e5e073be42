"""The moments of an optimiser in a checkpoint, matched by the names of the parameters."""

from __future__ import annotations

from typing import Any

from rlcomp.errors import CheckpointError

State = dict[str, Any]


def matched_moments(learner: str, saved: State, own: State) -> State:
    """A saved optimiser state for an optimiser that orders or groups parameters otherwise.

    Parameters are matched by the names that their groups hold, by index where they hold none.
    Hyperparameters are the own ones.

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
    state = {
        here[name][0]: saved["state"][index]
        for name, (index, _) in there.items()
        if index in saved["state"]
    }
    return {"state": state, "param_groups": own["param_groups"]}


def _by_name(state: State) -> dict[Any, tuple[int, frozenset[str]]]:
    """Of each parameter its index, and the hyperparameters of its group."""
    return {
        name: (index, frozenset(group) - {"params", "param_names"})
        for group in state["param_groups"]
        for name, index in zip(
            group.get("param_names", group["params"]), group["params"], strict=True
        )
    }
