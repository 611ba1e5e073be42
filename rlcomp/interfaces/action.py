"""Action: what a phase has done once, before its first step."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Action(Protocol):
    """What ``phases.NAME.on_begin`` names: called once, in order, before the stages begin.

    Every component is one, too (a reference takes its copy when a phase begins). On resume it is
    not called again: what it did must stand in the checkpoint, in the state of what it acts on or
    in its own.
    """

    def begin_phase(self) -> None:
        """Act."""
        ...
