"""Fixed answer tool: a control."""

from __future__ import annotations

from rlcomp.arguments import Checked


class FixedAnswer(metaclass=Checked):
    """Answers every call by the same text: a tool that is of no use.

    Planted beside those that are, it shows by its calls (``facts/calls_<name>``) what a reward pays
    for calling as such.

    Args:
        says: the text; "" is what a tool says that found nothing, and no useful call.
    """

    def __init__(self, *, says: str = "") -> None:
        self.says = says

    def __call__(self, query: str) -> str:
        """The text."""
        del query
        return self.says
