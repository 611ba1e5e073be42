"""Tool with a fixed answer, as a control."""

from __future__ import annotations

from rlcomp.arguments import Checked


class FixedAnswer(metaclass=Checked):
    """Tool that answers every call with the same text, so that it is useless.

    The number of its calls (``facts/calls_<name>``) shows whether a reward encourages useless
    calls.

    Args:
        says: the text of every answer; "" means that a call has no result and is not useful.
    """

    def __init__(self, *, says: str = "") -> None:
        self.says = says

    def __call__(self, query: str) -> str:
        """Return the fixed text; the query is ignored."""
        del query
        return self.says
