"""Answered calls: the calls of a turn are made in order, and answered together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rlcomp.episodes.tool_calls import Call
from rlcomp.episodes.tool_protocol import JsonCalls, told_together
from rlcomp.interfaces.environment import Turn


class AnsweredCalls:
    """Answers the calls of a turn, each between ``<tool_response>`` tags, and counts them.

    Args:
        answer: what is told of a call, and whether it failed.
    """

    def __init__(self, answer: Callable[[Call], tuple[str, bool]]) -> None:
        self.answer = answer
        self.calls = self.failed = 0

    def turn(self, calls: Sequence[Call] | str) -> Turn:
        """The answers to one call or more; or what is wrong with them, which counts as failed."""
        results = [calls] if isinstance(calls, str) else [self._result(call) for call in calls]
        self.failed += isinstance(calls, str)
        observation, closing = told_together(JsonCalls(), results)
        return Turn(observation=observation, closing=closing)

    def _result(self, call: Call) -> str:
        told, failed = self.answer(call)
        self.calls += 1
        self.failed += failed
        return told

    def facts(self) -> Mapping[str, float]:
        """How many ``calls`` were made, and how many ``failed``."""
        return {"calls": float(self.calls), "failed": float(self.failed)}
