"""What actions ask of a learner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class KeepsMoments(Protocol):
    """A learner whose optimiser has a past."""

    def forget_moments(self) -> None:
        """Go on as if the optimiser had never stepped."""
        ...


@runtime_checkable
class FreezesParameters(Protocol):
    """A learner some of whose parameters can be left out of its steps."""

    @property
    def trained_names(self) -> Sequence[str]:
        """The names of its parameters."""
        ...

    def freeze(self, names: Iterable[str]) -> None:
        """Leave these, and only these, out of the steps from here on."""
        ...
