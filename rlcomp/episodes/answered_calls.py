"""Calls of a turn, executed in order and answered together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rlcomp.episodes.tool_calls import ToolCall
from rlcomp.episodes.tool_protocol import JsonCalls, told_together
from rlcomp.interfaces.environment import Turn


class AnsweredCalls:
    """Executor of the calls of a turn, with results in ``<tool_response>`` tags and counts.

    Args:
        answer: executes a call; returns the result and whether it failed.
    """

    def __init__(self, answer: Callable[[ToolCall], tuple[str, bool]]) -> None:
        self.answer = answer
        self.calls = self.failed = 0

    def turn(self, calls: Sequence[ToolCall] | str) -> Turn:
        """Return the results of the calls; a text is the fault of malformed calls and a failure."""
        results = [calls] if isinstance(calls, str) else [self._result(call) for call in calls]
        self.failed += isinstance(calls, str)
        observation, closing = told_together(JsonCalls(), results)
        return Turn(observation=observation, closing=closing)

    def _result(self, call: ToolCall) -> str:
        result, failed = self.answer(call)
        self.calls += 1
        self.failed += failed
        return result

    def facts(self) -> Mapping[str, float]:
        """Return the number of executed ``calls`` and of those that ``failed``."""
        return {"calls": float(self.calls), "failed": float(self.failed)}
