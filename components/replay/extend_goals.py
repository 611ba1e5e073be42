"""Storage of steps with goals in a replay."""

from __future__ import annotations

from typing import ClassVar

from components.replay.extend import Extend


class ExtendGoals(Extend):
    """Stage that stores steps with their goals and episodes and returns the batch.

    Records ``replay/size``.

    Args:
        replay: the replay that stores them.
    """

    reads: ClassVar[tuple[str, ...]] = (
        *("observation", "action", "next.observation", "next.reward", "next.done"),
        *("next.terminated", "desired_goal", "next.desired_goal", "next.achieved_goal"),
        *("trajectory", "step_count"),
    )
    optional: ClassVar[tuple[str, ...]] = ()
