"""Colours of arms in figures: told apart on white and on black, and by the colour-blind."""

from __future__ import annotations

# Okabe and Ito.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#999999")


def colour_of(index: int) -> str:
    """The colour of the ``index``-th arm; they come again after eight.

    Examples:
        >>> colour_of(0) == colour_of(8), colour_of(1)
        (True, '#d55e00')
    """
    return COLOURS[index % len(COLOURS)]
