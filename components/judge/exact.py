"""Exact-match judge."""

from __future__ import annotations

from rlcomp.arguments import Checked


class Exact(metaclass=Checked):
    r"""Judge by exact match of the word sequences: 1 if equal up to white space, else 0.

    Examples:
        >>> Exact()(" the\ncat", "the cat "), Exact()("The cat", "the cat")
        (1.0, 0.0)
    """

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Return the score; None for a reference without words."""
        words = reference.split()
        return float(prediction.split() == words) if words else None
