"""Interface of judges: compare a prediction with a reference text."""

from __future__ import annotations

from typing import Protocol


class Judge(Protocol):
    """Scores the agreement of a prediction with a reference text."""

    def __call__(self, prediction: str, reference: str) -> float | None:
        """The score in [0, 1]; None if it cannot be judged."""
        ...
