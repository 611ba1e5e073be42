"""Colours of arms in figures: distinct on white and on black, and for the colour-blind."""

from __future__ import annotations

# The palette of Okabe and Ito.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#999999")


def colour_of(index: int) -> str:
    """Return the colour of the ``index``-th arm; the colours repeat after eight.

    Examples:
        >>> colour_of(0) == colour_of(8), colour_of(1)
        (True, '#d55e00')
    """
    return COLOURS[index % len(COLOURS)]
