"""The steps of a phase in which an inserted stage stands in its list."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rlcomp.config.reader import Reader

BOUNDS = ("from_step", "until_step")


@dataclass(frozen=True)
class Window:
    """Steps ``first`` to ``last`` of a phase, counted from 1, both included.

    Attributes:
        first: the first step.
        last: the last step; None: to the end of the phase.
    """

    first: int = 1
    last: int | None = None

    def holds(self, step: int) -> bool:
        """Return whether a step is in it."""
        return self.first <= step and (self.last is None or step <= self.last)

    def ends(self) -> list[int]:
        """Return the steps at which :meth:`holds` changes, from False to True or back."""
        return [self.first] if self.last is None else [self.first, self.last + 1]


ALWAYS = Window()


def window(reader: Reader, where: str, bounds: Mapping[str, object], steps: int) -> Window | None:
    """Return the window of ``from_step`` and ``until_step``, both included.

    A whole number is a step, counted from 1. A share of the phase between 0 and 1 is meant to grow
    with the phase: ``from_step: 0.5`` begins when half of the steps are done (step 51 of 100),
    ``until_step: 0.5`` ends there (step 50).

    Args:
        reader: collects the mistakes.
        where: config path of the entry.
        bounds: the two values; None where one is left out.
        steps: of the phase.

    Returns:
        None if a bound is wrong: told.
    """
    for name, value in bounds.items():
        if value is not None and not _is_bound(value):
            reader.fail(
                f"{where}.{name} is {value!r}: must be a step (1, 2, ...) or a share of the phase "
                "between 0 and 1"
            )
            return None
    begin, end = (bounds[name] for name in BOUNDS)
    first = 1 if begin is None else _steps(begin, steps) + isinstance(begin, float)
    last = None if end is None else _steps(end, steps)
    whole = [value for value in (begin, end) if isinstance(value, int)]
    shares_cross = isinstance(begin, float) and isinstance(end, float) and begin >= end
    empty = first > steps or (last is not None and last < first)
    if (steps and whole and empty) or shares_cross:
        shown = ", ".join(f"{name} {value}" for name, value in bounds.items() if value is not None)
        reader.fail(
            f"{where} has {shown}, but the phase has {steps} steps: it would never run; a share of "
            "the phase (from_step: 0.5) goes with its length"
        )
        return None
    return Window(first, last)


def _is_bound(value: object) -> bool:
    if isinstance(value, float):
        return 0 < value < 1
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _steps(bound: object, steps: int) -> int:
    """Return a bound in steps; a share is cut to whole ones (.29 of 100 is 29, despite floats).

    A share is below 1, so it never is all steps.
    """
    if isinstance(bound, float):
        return max(min(math.floor(round(bound * steps, 6)), steps - 1), 0)
    return bound if isinstance(bound, int) else 0
