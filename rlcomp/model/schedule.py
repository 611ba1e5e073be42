"""Learning-rate schedules as functions of a phase's progress."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

from rlcomp.arguments import Fraction, Probability
from rlcomp.component import check_arguments

# Fine enough that a warm-up of 1 % is a ramp of 100 values.
_STEPS = 10_000


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Multiplier of the learning rate: transformers' formulas on a grid of 10,000 steps.

    ``t / w`` up to ``t = w``, the end of the warm-up. Later, with ``p = (t - w) / (1 - w)``: 1,
    ``(1 - f) (1 - p) + f`` (linear) or ``(1 - f) (1 + cos(pi p)) / 2 + f`` (cosine).

    Attributes:
        name: shape after the warm-up.
        warmup: share of the phase in which the multiplier rises linearly from 0 to 1.
        final: multiplier at the end of the phase; not used by a constant schedule.

    Source:
        transformers 5, ``get_scheduler``: ``constant_with_warmup``, ``polynomial`` of power 1,
        ``cosine_with_min_lr``; equal to the bit.

    Examples:
        >>> [Schedule(name="linear", final=0.1)(progress) for progress in (0.0, 0.5, 1.0)]
        [1.0, 0.55, 0.1]
    """

    name: Literal["constant", "linear", "cosine"] = "constant"
    warmup: Fraction = 0.0
    final: Probability = 0.0

    def __post_init__(self) -> None:
        check_arguments(type(self), (), asdict(self))

    def __call__(self, progress: float) -> float:
        """Return the multiplier, in [0, 1], at a progress in [0, 1] of the phase."""
        step = round(progress * _STEPS)
        # At least one step stays after the warm-up: the formulas divide by the number of these
        # steps.
        ramp = min(round(self.warmup * _STEPS), _STEPS - 1)
        if step < ramp:
            return step / ramp
        return self._after((step - ramp) / (_STEPS - ramp))

    def _after(self, passed: float) -> float:
        """Return the multiplier after a share of the steps behind the warm-up."""
        if self.name == "linear":
            return (1 - self.final) * (1 - passed) + self.final
        if self.name == "cosine":
            wave = 0.5 * (1 + math.cos(math.pi * passed))
            return wave * (1 - self.final) + self.final
        return 1.0
