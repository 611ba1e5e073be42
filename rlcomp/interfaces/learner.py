"""What actions ask of a learner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from tensordict import TensorDict


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


@runtime_checkable
class SharesSteps(Protocol):
    """A learner whose steps several ranks may take together (:mod:`rlcomp.parallel`)."""

    def update(self, rows: TensorDict) -> bool:
        """Take the optimiser steps of a batch, on all ranks; whether one of them was taken."""
        ...

    def moments(self) -> dict[str, Any]:
        """The state of the optimiser, on all ranks."""
        ...
