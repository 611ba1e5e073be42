"""Held-out shares that leave examples for training and for evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rlcomp.interfaces.task import Task, is_held_out

# A larger task has enough examples at any share, and hashing all its texts takes long.
_MAX_EXAMPLES = 10_000


class Share(NamedTuple):
    """Value of ``task.held_out``, and its number of held-out and of training examples."""

    value: float
    held_out: int
    training: int

    def __str__(self) -> str:
        """Return the setting and its effect, for a message."""
        total = self.held_out + self.training
        return f"set task.held_out={self.value:g} ({self.held_out} of {total} held out)"


def fitting_share(task: Task, training: int = 1) -> Share | None:
    """Return the share nearest to the task's own that leaves enough examples.

    At least one example is held out, and at least ``training`` examples are for training.

    Returns:
        A multiple of 0.1 if possible, otherwise of 0.01; None if there is none, or if the task has
        more than 10,000 examples.
    """
    if len(task) > _MAX_EXAMPLES:
        return None
    keys = [task.example(index).held_out_by for index in range(len(task))]
    for steps in (10, 100):
        shares = sorted(
            (step / steps for step in range(1, steps)), key=lambda share: abs(share - task.held_out)
        )
        splits = (_split(keys, share) for share in shares)
        fitting = (share for share in splits if share.held_out and share.training >= training)
        if share := next(fitting, None):
            return share
    return None


def _split(keys: Iterable[str], share: float) -> Share:
    held_out = [is_held_out(key, share) for key in keys]
    return Share(share, sum(held_out), len(held_out) - sum(held_out))
