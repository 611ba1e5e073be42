"""Action: a single operation of a phase before its first step."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Action(Protocol):
    """An entry of ``phases.NAME.on_begin``: called once, in order, before the stages begin.

    Every component is an action, too (a reference copies the weights when a phase begins). It is
    not called again on resume: its effect must be in the checkpoint, in the state of its object or
    in its own.
    """

    def begin_phase(self) -> None:
        """Run the action."""
        ...
