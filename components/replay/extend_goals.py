"""Writes steps towards goals into a replay."""

from __future__ import annotations

from typing import ClassVar

from components.replay.extend import Extend


class ExtendGoals(Extend):
    """Stores steps with their goals and episodes; hands the batch on.

    Records ``replay/size``.

    Args:
        replay: takes them.
    """

    reads: ClassVar[tuple[str, ...]] = (
        *("observation", "action", "next.observation", "next.reward", "next.done"),
        *("next.terminated", "desired_goal", "next.desired_goal", "next.achieved_goal"),
        *("trajectory", "step_count"),
    )
    optional: ClassVar[tuple[str, ...]] = ()
