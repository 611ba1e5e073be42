"""Learning-rate schedules as functions of a phase's progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal

import torch
from transformers import get_scheduler

from rlcomp.arguments import Fraction, Probability
from rlcomp.component import check_arguments

# Fine enough that a warm-up of 1 % is a ramp of 100 values.
_STEPS = 10_000


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Multiplier of the learning rate, from transformers' own formulas.

    Attributes:
        name: shape after the warm-up.
        warmup: share of the phase in which the multiplier rises linearly from 0 to 1.
        final: multiplier at the end of the phase; a constant schedule has none to reach.

    Examples:
        >>> [Schedule(name="linear", final=0.1)(progress) for progress in (0.0, 0.5, 1.0)]
        [1.0, 0.55, 0.1]
    """

    name: Literal["constant", "linear", "cosine"]
    warmup: Fraction = 0.0
    final: Probability = 0.0

    def __post_init__(self) -> None:
        check_arguments(type(self), (), asdict(self))

    def __call__(self, progress: float) -> float:
        """The multiplier, in [0, 1], at a progress in [0, 1] of the phase."""
        return float(self._multiplier(round(progress * _STEPS)))

    @cached_property
    def _multiplier(self) -> Callable[[int], float]:
        # transformers hides its formulas behind an optimizer of learning rate 1 that never steps.
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        name, arguments = self._library_name()
        schedule = get_scheduler(
            name,
            optimizer,
            # At least one step stays after the warm-up: the formulas divide by what is left.
            num_warmup_steps=min(round(self.warmup * _STEPS), _STEPS - 1),
            num_training_steps=_STEPS,
            scheduler_specific_kwargs=arguments,
        )
        multiplier: Callable[[int], float] = schedule.lr_lambdas[0]
        return multiplier

    def _library_name(self) -> tuple[str, dict[str, float]]:
        """The library's schedule of this shape, and how it is told where to end."""
        if self.name == "cosine":
            return "cosine_with_min_lr", {"min_lr_rate": self.final}
        # The library refuses a decay that ends where it started.
        if self.name == "linear" and self.final < 1.0:
            return "polynomial", {"lr_end": self.final, "power": 1.0}
        return "constant_with_warmup", {}
