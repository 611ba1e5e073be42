"""Environment with tools, which an agent calls until it answers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, Unbuilt
from rlcomp.episodes.method_tools import bind
from rlcomp.episodes.tool_calls import ToolCall
from rlcomp.episodes.tool_protocol import Tags, ToolProtocol
from rlcomp.errors import ConfigError, nearest
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.tool import FunctionTool, KnowsExample, Tool, ToolError, check_kinds
from rlcomp.verify.columns import gold_answers
from rlcomp.verify.notes import notes_hold, notes_of
from rlcomp.workers.function_call import load

# Most characters of a result.
_LONGEST = 100_000


class Tools(metaclass=Checked):
    """Environment with tools: a turn that ends in a call gets its result, any other is the answer.

    The reason of a tool that refuses a call (:class:`rlcomp.interfaces.tool.ToolError`) is the
    result. Any other exception makes the episode invalid. A call that costs more than the rest of
    the budget is not made, and the result says so.

    Facts: ``calls``; ``tool_errors``, the refused ones; ``useful_calls``, those with a result;
    ``tools_used``, the tools with a useful call; ``malformed`` turns; ``cost``; ``calls_<name>``,
    the calls of each tool. With ``notes`` also ``note_words``, the words of the policy's notes, and
    ``notes_hold_answer``, whether they hold the gold answer or one of the column ``answers``.

    Args:
        tools: tools by name: a class, its description, or the description of a plain function,
            whose result is written as text.
        protocol: format of calls and results; tags if not given.
        prices: price of a call, by tool; 0 for the others.
        budget: most cost of an episode's calls; null: no limit.
        notes: tag of the policy's notes on results, such as ``refine``; null: none.

    Raises:
        ConfigError: there is no tool, a price names no tool, or the protocol cannot tell two tools
            apart.
    """

    def __init__(
        self,
        *,
        tools: dict[str, Callable[..., Tool] | Unbuilt],
        protocol: ToolProtocol | Unbuilt | None = None,
        prices: dict[str, NonNegativeFloat] | None = None,
        budget: NonNegativeFloat | None = None,
        notes: NonEmptyText | None = None,
    ) -> None:
        if not tools:
            raise ConfigError("Tools: tools is empty: name at least one")
        for name in prices or {}:
            if name not in tools:
                raise ConfigError(f"Tools: prices names {name!r}{nearest(name, list(tools))}")
        self.tools = {name: _tool(name, tool) for name, tool in tools.items()}
        self.names = [*self.tools]
        self.protocol: ToolProtocol = Tags() if protocol is None else _made(protocol, made=True)
        self.prices = prices or {}
        self.budget = budget
        self.stops = self.protocol.stops(self.names)
        self.counts = dict.fromkeys(["calls", "tool_errors", "useful_calls", "malformed"], 0)
        self.counts |= {f"calls_{name}": 0 for name in self.names}
        self.used = set[str]()
        self.cost = 0.0
        self.notes = notes
        self.said, self.gold = "", list[str]()

    def reset(self, example: Example, seed: int) -> Turn:
        """Pass the example to the tools; the first observation is empty."""
        del seed
        self.gold = gold_answers({**example.columns, "answer": example.answer})
        for tool in self.tools.values():
            if isinstance(tool, KnowsExample):
                tool.begin(example)
        return Turn()

    def step(self, action: str) -> Turn:
        """Return the result of a call, or end the episode."""
        self.said += action
        call, wrong = self.protocol.read(action, self.names)
        if call is None and not wrong:
            return Turn(done=True)
        if call is None:
            self.counts["malformed"] += 1
            return self._said(f"error: {wrong}")
        return self._said(self._answer(call))

    def _answer(self, call: ToolCall) -> str:
        price = self.prices.get(call.name, 0.0)
        if self.budget is not None and self.cost + price > self.budget:
            return "error: the budget is spent"
        self.counts["calls"] += 1
        self.counts[f"calls_{call.name}"] += 1
        self.cost += price
        try:
            result = self._called(call)
        except ToolError as error:
            self.counts["tool_errors"] += 1
            return f"error: {error}"
        if result:
            self.counts["useful_calls"] += 1
            self.used.add(call.name)
        return result

    def _called(self, call: ToolCall) -> str:
        tool = self.tools[call.name]
        bound = bind(tool, call)
        if not isinstance(tool, FunctionTool):  # a FunctionTool converts texts to numbers first
            check_kinds(bound)
        result = tool(*call.positional, **call.arguments)
        if not isinstance(result, str):
            raise TypeError(f"the tool {call.name} returned {result!r:.60}: must be a text")
        return result[:_LONGEST]

    def _said(self, result: str) -> Turn:
        observation, closing = self.protocol.told(result, self.names)
        return Turn(observation=observation, closing=closing)

    def facts(self) -> Mapping[str, float]:
        """Return counts and cost of the calls, and facts of the notes."""
        counts = {name: float(count) for name, count in self.counts.items()}
        return counts | {"tools_used": float(len(self.used)), "cost": self.cost} | self._noted()

    def _noted(self) -> dict[str, float]:
        if self.notes is None:
            return {}
        words = len(notes_of(self.said, self.notes).split())
        held = notes_hold(self.said, self.notes, self.gold)
        return {"note_words": float(words), "notes_hold_answer": float(held)}

    def close(self) -> None:
        """Close the tools that have a ``close``."""
        for tool in self.tools.values():
            if callable(close := getattr(tool, "close", None)):
                close()


def _tool(name: str, part: object) -> Tool:
    """Return the tool of a description: a new object for this episode, or a function."""
    target = load(part.target, None) if isinstance(part, Unbuilt) else part
    if isinstance(part, Unbuilt) and inspect.isfunction(target):
        return FunctionTool(functools.partial(target, **part.arguments))
    tool = _made(part)
    if not callable(tool):
        raise ConfigError(
            f"Tools: the tool {name} is {tool!r:.60}, which cannot be called: it is a function, or "
            "a class with a method __call__(self, query) (docs/how_to/tools.md)"
        )
    return tool  # type: ignore[no-any-return]


def _made(part: Any, *, made: bool = False) -> Any:  # noqa: ANN401
    """Return the object of a description, or the result of calling a class or a function."""
    if isinstance(part, Unbuilt):
        return load(part.target, part.arguments)
    return part if made else part()
