"""Interface for locating the first value of an optimiser step that is not finite."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tensordict import TensorDict


@runtime_checkable
class Traced(Protocol):
    """A learner whose steps can be repeated (``rlcomp-replay``)."""

    def trace(self, batch: TensorDict) -> dict[str, str | None]:
        """Repeat an optimiser step without taking it.

        Args:
            batch: the rows of the step.

        Returns:
            The stages of the step in order, each with the first bad key in it, in words, or None.
        """
        ...
