"""What a judge is: it compares a prediction with the true text."""

from __future__ import annotations

from typing import Protocol


class Judge(Protocol):
    """Says how well a prediction agrees with a text."""

    def __call__(self, prediction: str, reference: str) -> float | None:
        """How well, in [0, 1]; None where it cannot be told."""
        ...
