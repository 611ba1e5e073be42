"""Memory that a run shares with the process that watches over it."""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping


class SharedStatus:
    """What a run and its watcher tell one another, in memory that outlives either of them.

    The run writes where it is and how it ended; the watcher writes how often it was asked to stop.
    Without a watcher it is memory like any other.

    Attributes:
        watched: whether another process answers signals and tells how the run ended.
    """

    def __init__(self, *, watched: bool = False) -> None:
        self.watched = watched
        self._signals = mmap.mmap(-1, 1)
        self._place = _Shared(4096)
        self._end = _Shared(1 << 18)

    @property
    def signals(self) -> int:
        """How many signals the watcher has got."""
        return self._signals[0]

    @signals.setter
    def signals(self, count: int) -> None:
        self._signals[0] = min(count, 255)

    def at(self, phase: str, step: int, steps: int, stage: str) -> None:
        """The run is here now.

        Args:
            phase: its name.
            step: of the phase, from 1.
            steps: of the phase.
            stage: the node and its class, or what the loop itself does.
        """
        self._place.write({"phase": phase, "step": step, "steps": steps, "stage": stage})

    def doing(self, stage: str) -> None:
        """The run is where it was, and does this now."""
        if place := self.place():
            self._place.write({**place, "stage": stage})

    def place(self) -> dict[str, object]:
        """Where the run is: ``phase``, ``step``, ``steps``, ``stage``; empty before its first."""
        return self._place.read()

    def end(self, told: Mapping[str, object]) -> None:
        """The run has ended, and how (:func:`rlcomp.cli.guard.verdict`)."""
        self._end.write(told)

    def ended(self) -> dict[str, object]:
        """How it ended; empty where it has not said so."""
        return self._end.read()


class _Shared:
    """A JSON object in memory that forked processes share."""

    def __init__(self, size: int) -> None:
        self.memory = mmap.mmap(-1, size)

    def write(self, value: Mapping[str, object]) -> None:
        text = json.dumps(value).encode()
        self.memory[:4] = bytes(4)  # whoever reads now finds nothing, not half of it
        self.memory[4 : 4 + len(text)] = text
        self.memory[:4] = len(text).to_bytes(4, "big")

    def read(self) -> dict[str, object]:
        size = int.from_bytes(self.memory[:4], "big")
        found: dict[str, object] = json.loads(self.memory[4 : 4 + size]) if size else {}
        return found


def describe_place(place: Mapping[str, object]) -> str:
    """A place in words.

    Examples:
        >>> describe_place({"phase": "rl", "step": 2, "steps": 9, "stage": "reward (Regex)"})
        "in stage 'reward (Regex)', phase 'rl', step 2 of 9"
        >>> describe_place({})
        'before its first step'
    """
    if not place:
        return "before its first step"
    return "in stage '{stage}', phase '{phase}', step {step} of {steps}".format(**place)
