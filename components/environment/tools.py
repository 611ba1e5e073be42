"""Environment with tools for an agent."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, Unbuilt
from rlcomp.episodes.tool_calls import ToolCall
from rlcomp.episodes.tool_execution import bind
from rlcomp.episodes.tool_protocol import Tags, ToolProtocol
from rlcomp.errors import ConfigError, nearest
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.tool import FunctionTool, KnowsExample, Tool, ToolError, check_kinds
from rlcomp.verify.answers import gold_answers
from rlcomp.verify.short_answer import notes_hold, notes_of
from rlcomp.workers.function_call import load

_MAX_CHARACTERS = 100_000  # of a result


class Tools(metaclass=Checked):
    """Environment with tools: a turn that ends in a call gets its result; other turns are answers.

    The result of a call with a :class:`rlcomp.interfaces.tool.ToolError` is ``error: `` and its
    message; any other exception makes the episode invalid. A call above the remaining budget is not
    made or counted; its result is an error message. A result is cut after 100,000 characters.

    Facts: numbers of ``calls``, of calls with a ToolError (``tool_errors``), of calls with a
    non-empty result (``useful_calls``), of tools with a useful call (``tools_used``), of
    ``malformed`` turns, and of calls of each tool (``calls_<name>``); and the ``cost`` of all
    calls. With ``notes`` also the number of words of the policy's notes (``note_words``), and
    whether they contain the gold answer or one of the column ``answers`` (``notes_hold_answer``).

    Args:
        tools: tools by name: a class, or the config of a class or function that is not built yet
            (``Unbuilt``); the result of a function is converted to text.
        protocol: format of calls and results; None: tags.
        prices: price of a call by the tool's name; other tools have the price 0.
        budget: largest cost of all calls of an episode; None: no limit.
        notes: tag of the policy's notes on results, such as ``refine``; None: no facts of notes.

    Raises:
        ConfigError: there is no tool, a tool cannot be called, a price has the name of no tool, or
            the protocol cannot distinguish two tools.
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
        self.tools = {name: _build_tool(name, tool) for name, tool in tools.items()}
        self.names = [*self.tools]
        self.protocol: ToolProtocol = Tags() if protocol is None else _load_object(protocol)
        self.prices = prices or {}
        self.budget = budget
        self.stops = self.protocol.stops(self.names)
        self.counts = dict.fromkeys(["calls", "tool_errors", "useful_calls", "malformed"], 0)
        self.counts |= {f"calls_{name}": 0 for name in self.names}
        self.used_tools = set[str]()
        self.cost = 0.0
        self.notes = notes
        self.policy_text, self.gold = "", list[str]()

    def reset(self, example: Example, seed: int) -> Turn:
        """Pass the example to the tools and return an empty observation; ``seed`` is ignored."""
        del seed
        self.gold = gold_answers({**example.columns, "answer": example.answer})
        for tool in self.tools.values():
            if isinstance(tool, KnowsExample):
                tool.begin(example)
        return Turn()

    def step(self, action: str) -> Turn:
        """Return the result of a call, or end the episode."""
        self.policy_text += action
        call, fault = self.protocol.read(action, self.names)
        if call is None and not fault:
            return Turn(done=True)
        if call is None:
            self.counts["malformed"] += 1
            return self._result_turn(f"error: {fault}")
        return self._result_turn(self._make_call(call))

    def _make_call(self, call: ToolCall) -> str:
        """Return the result of a call or an error message, and count the call."""
        price = self.prices.get(call.name, 0.0)
        if self.budget is not None and self.cost + price > self.budget:
            return "error: the budget is spent"
        self.counts["calls"] += 1
        self.counts[f"calls_{call.name}"] += 1
        self.cost += price
        try:
            result = self._run_tool(call)
        except ToolError as error:
            self.counts["tool_errors"] += 1
            return f"error: {error}"
        if result:
            self.counts["useful_calls"] += 1
            self.used_tools.add(call.name)
        return result

    def _run_tool(self, call: ToolCall) -> str:
        """Return the result of a call; a ToolError of the tool or of wrong arguments is raised."""
        tool = self.tools[call.name]
        bound = bind(tool, call)
        if not isinstance(tool, FunctionTool):  # A FunctionTool converts texts to numbers itself.
            check_kinds(bound)
        result = tool(*call.positional, **call.arguments)
        if not isinstance(result, str):
            raise TypeError(f"the tool {call.name} returned {result!r:.60}: must be a text")
        return result[:_MAX_CHARACTERS]

    def _result_turn(self, result: str) -> Turn:
        observation, closing = self.protocol.format_result(result, self.names)
        return Turn(observation=observation, closing=closing)

    def facts(self) -> Mapping[str, float]:
        """Return the facts of the calls and of the notes."""
        counts = {name: float(count) for name, count in self.counts.items()}
        return (
            counts
            | {"tools_used": float(len(self.used_tools)), "cost": self.cost}
            | self._note_facts()
        )

    def _note_facts(self) -> dict[str, float]:
        if self.notes is None:
            return {}
        words = len(notes_of(self.policy_text, self.notes).split())
        held = notes_hold(self.policy_text, self.notes, self.gold)
        return {"note_words": float(words), "notes_hold_answer": float(held)}

    def close(self) -> None:
        """Close the tools that have a ``close``."""
        for tool in self.tools.values():
            if callable(close := getattr(tool, "close", None)):
                close()


def _build_tool(name: str, part: object) -> Tool:
    """Return the tool of a description: a new object for this episode, or a function."""
    target = load(part.target, None) if isinstance(part, Unbuilt) else part
    if isinstance(part, Unbuilt) and inspect.isfunction(target):
        return FunctionTool(functools.partial(target, **part.arguments))
    tool = _load_object(part) if isinstance(part, Unbuilt) else part()  # type: ignore[operator]
    if not callable(tool):
        raise ConfigError(
            f"Tools: the tool {name} is {tool!r:.60}, which cannot be called: must be a function, "
            "or a class with a method __call__(self, query) (docs/how_to/tools.md)"
        )
    return tool  # type: ignore[no-any-return]


def _load_object(part: Any) -> Any:  # noqa: ANN401
    """Return the object of a description; another value is returned unchanged."""
    return load(part.target, part.arguments) if isinstance(part, Unbuilt) else part
