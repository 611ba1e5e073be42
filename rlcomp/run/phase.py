"""A phase: a number of steps over a list of stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.stages import PhaseAction

NamedStages = list[tuple[str, nn.Module]]


@dataclass
class Phase:
    """``steps`` iterations of ``stages``; ``every`` runs other nodes periodically and at the end.

    Attributes:
        steps: number of steps.
        stages: components or foreign TensorDict modules.
        every: (period in steps, stage) by name; the stage gets a copy of the batch.
        later: lists that replace ``stages``, by their first step, counted from 1.
        on_begin: actions before the first step, in order, and before ``begin_phase`` of the stages
            (:class:`rlcomp.interfaces.stages.PhaseAction`).
    """

    steps: int
    stages: Sequence[nn.Module]
    every: Mapping[str, tuple[int, nn.Module]] = field(default_factory=dict)
    later: Mapping[int, Sequence[nn.Module]] = field(default_factory=dict)
    on_begin: Sequence[PhaseAction] = ()

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
        for action in self.on_begin:
            if not isinstance(action, PhaseAction):
                raise ConfigError(
                    f"on_begin has a {type(action).__name__}: must have a method begin_phase()"
                )

    def all_stages(self) -> list[nn.Module]:
        """Return the stages of all lists, then the periodic ones."""
        listed = {id(stage): stage for stages in self.lists() for stage in stages}
        return [*listed.values(), *(stage for _, stage in self.every.values())]

    def all_modules(self) -> list[nn.Module]:
        """Return all stages and the modules among ``on_begin``."""
        return [
            *self.all_stages(),
            *(action for action in self.on_begin if isinstance(action, nn.Module)),
        ]

    def components(self) -> Iterator[Component]:
        """Yield the components in the stages, each once."""
        modules = {id(m): m for stage in self.all_stages() for m in stage.modules()}
        return (module for module in modules.values() if isinstance(module, Component))

    def lists(self) -> list[Sequence[nn.Module]]:
        """Return ``stages`` and the later lists, in the order in which they run."""
        return [self.stages, *(self.later[step] for step in sorted(self.later))]

    def at(self, step: int) -> Sequence[nn.Module]:
        """Return the list that runs at a step, counted from 1."""
        starts = [first for first in self.later if first <= step]
        return self.later[max(starts)] if starts else self.stages

    def due(self, step: int) -> NamedStages:
        """Return the periodic nodes due after ``step``, counted from 1; all after the last step."""
        last = step == self.steps
        return [
            (name, stage)
            for name, (period, stage) in self.every.items()
            if last or not step % period
        ]
