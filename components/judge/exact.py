"""The same text."""

from __future__ import annotations

from rlcomp.arguments import Checked


class Exact(metaclass=Checked):
    r"""1 for the same words in the same order, whatever white space stands around them, else 0.

    Examples:
        >>> Exact()(" the\ncat", "the cat "), Exact()("The cat", "the cat")
        (1.0, 0.0)
    """

    def __call__(self, prediction: str, reference: str) -> float | None:
        """Compare; a reference without words says nothing."""
        words = reference.split()
        return float(prediction.split() == words) if words else None
