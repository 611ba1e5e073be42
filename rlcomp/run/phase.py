"""A phase: a number of steps over a list of stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from rlcomp.errors import ConfigError


@dataclass
class Phase:
    """``steps`` iterations of ``stages``; ``every`` runs other nodes periodically and at the end.

    Attributes:
        steps: how many.
        stages: components or foreign TensorDict modules.
        every: by name, (period in steps, stage); the stage sees a copy of the batch.
    """

    steps: int
    stages: Sequence[nn.Module]
    every: Mapping[str, tuple[int, nn.Module]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ConfigError(f"a phase has steps={self.steps}: must be at least 0")
        for name, entry in self.every.items():
            if not isinstance(entry, tuple) or len(entry) != 2 or not entry[0] > 0:
                raise ConfigError(f"every {name!r} is {entry!r}: must be (period in steps, stage)")
        for stage in self.all_stages():
            if not isinstance(stage, nn.Module):
                raise ConfigError(
                    f"a stage is a {type(stage).__name__}: must be a TensorDict module"
                )

    def all_stages(self) -> list[nn.Module]:
        """The stages of the flow, then those beside it."""
        return [*self.stages, *(stage for _, stage in self.every.values())]

    def due(self, step: int) -> list[tuple[str, nn.Module]]:
        """The periodic nodes due after step ``step`` (counted from 1)."""
        last = step == self.steps
        return [
            (name, stage)
            for name, (period, stage) in self.every.items()
            if last or not step % period
        ]
