"""Interfaces of a learner that actions need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from tensordict import TensorDict


@runtime_checkable
class KeepsMoments(Protocol):
    """A learner whose optimiser has state."""

    def forget_moments(self) -> None:
        """Reset the optimiser to its state before the first step."""
        ...


@runtime_checkable
class FreezesParameters(Protocol):
    """A learner that can exclude some of its parameters from its steps."""

    @property
    def trained_names(self) -> Sequence[str]:
        """Return the names of its parameters."""
        ...

    def freeze(self, names: Iterable[str]) -> None:
        """Exclude these parameters, and only these, from all further steps."""
        ...


@runtime_checkable
class SharesSteps(Protocol):
    """A learner whose steps several ranks may take together (:mod:`rlcomp.parallel`)."""

    def update(self, rows: TensorDict) -> bool:
        """Take the optimiser steps of a batch on all ranks; return True if one was taken."""
        ...

    def moments(self) -> dict[str, Any]:
        """Return the state of the optimiser, on all ranks."""
        ...
