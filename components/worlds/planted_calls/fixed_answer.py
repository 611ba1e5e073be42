"""Fixed answer tool, a control."""

from __future__ import annotations

from rlcomp.arguments import Checked


class FixedAnswer(metaclass=Checked):
    """Answers every call by the same text: a tool that is of no use.

    Its calls (``facts/calls_<name>``) show how much a reward pays for calls as such.

    Args:
        says: the text; "" stands for no result and is no useful call.
    """

    def __init__(self, *, says: str = "") -> None:
        self.says = says

    def __call__(self, query: str) -> str:
        """Return the text."""
        del query
        return self.says
