"""Status of a run in memory that it shares with its supervisor."""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping


class SharedStatus:
    """Shared memory of a run and its supervisor, which outlives both processes.

    The run writes its position and its outcome. The supervisor writes the number of signals.
    Without a supervisor it is ordinary memory.

    Attributes:
        watched: whether a supervisor answers signals and reports the outcome.
    """

    def __init__(self, *, watched: bool = False) -> None:
        self.watched = watched
        self._signals = mmap.mmap(-1, 1)
        self._place = _Shared(4096)
        self._end = _Shared(1 << 18)

    @property
    def signals(self) -> int:
        """The number of signals that the supervisor has received."""
        return self._signals[0]

    @signals.setter
    def signals(self, count: int) -> None:
        self._signals[0] = min(count, 255)

    def at(self, phase: str, step: int, steps: int, stage: str) -> None:
        """Set the position of the run.

        Args:
            phase: its name.
            step: of the phase, from 1.
            steps: of the phase.
            stage: the node and its class, or the action of the loop itself.
        """
        self._place.write({"phase": phase, "step": step, "steps": steps, "stage": stage})

    def doing(self, stage: str) -> None:
        """Set the stage; phase and step stay."""
        if place := self.place():
            self._place.write({**place, "stage": stage})

    def place(self) -> dict[str, object]:
        """Return ``phase``, ``step``, ``steps`` and ``stage``; empty before the first step."""
        return self._place.read()

    def end(self, outcome: Mapping[str, object]) -> None:
        """Set the outcome of the run (:func:`rlcomp.cli.error_handler.error_report`)."""
        self._end.write(outcome)

    def ended(self) -> dict[str, object]:
        """Return the outcome of the run; empty while it has none."""
        return self._end.read()


class _Shared:
    """A JSON object in memory that forked processes share."""

    def __init__(self, size: int) -> None:
        self.memory = mmap.mmap(-1, size)

    def write(self, value: Mapping[str, object]) -> None:
        text = json.dumps(value).encode()
        self.memory[:4] = bytes(4)  # a reader must see nothing, not half of the text
        self.memory[4 : 4 + len(text)] = text
        self.memory[:4] = len(text).to_bytes(4, "big")

    def read(self) -> dict[str, object]:
        size = int.from_bytes(self.memory[:4], "big")
        value: dict[str, object] = json.loads(self.memory[4 : 4 + size]) if size else {}
        return value


def describe_place(place: Mapping[str, object]) -> str:
    """Describe a position in words.

    Examples:
        >>> describe_place({"phase": "rl", "step": 2, "steps": 9, "stage": "reward (Regex)"})
        "in stage 'reward (Regex)', phase 'rl', step 2 of 9"
        >>> describe_place({})
        'before its first step'
    """
    if not place:
        return "before its first step"
    return "in stage '{stage}', phase '{phase}', step {step} of {steps}".format(**place)
