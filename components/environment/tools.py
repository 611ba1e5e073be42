"""Tools environment: an agent calls tools until it answers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText, NonNegativeFloat, Unbuilt
from rlcomp.episodes.method_tools import bind
from rlcomp.episodes.tool_calls import Call
from rlcomp.episodes.tool_protocol import Tags, ToolProtocol
from rlcomp.errors import ConfigError, nearest
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.tool import FunctionTool, KnowsExample, Tool, ToolError, check_kinds
from rlcomp.verify.columns import gold_answers
from rlcomp.verify.notes import notes_hold, notes_of
from rlcomp.workers.call import load

# Characters of a result: what is longer was never meant to be read.
_LONGEST = 100_000


class Tools(metaclass=Checked):
    """An agent with tools: a turn that ends in a call is answered, any other is the answer.

    A tool that refuses a call (:class:`rlcomp.interfaces.tool.ToolError`) says why; any other
    exception is the environment's, and the episode becomes invalid. A call that costs more than
    is left of the budget is not made, and the policy is told so.

    Facts: ``calls``, of which ``tool_errors`` were refused and ``useful_calls`` told something;
    ``tools_used``, different tools with a useful call; ``malformed`` turns; ``cost``; the calls of
    each tool, ``calls_<name>``; with ``notes`` how many words the policy noted, ``note_words``, and
    whether the gold answer, or one of the column ``answers``, is among them, ``notes_hold_answer``.

    Args:
        tools: by name: a class to call, or its description; or that of a plain function, which is
            the tool itself, its result written as text.
        protocol: how calls and results are written; tags if not given.
        prices: of a call, by tool; 0 for the others.
        budget: what the calls of an episode may cost; null: anything.
        notes: tag of the policy's notes on what it was told, such as ``refine``; null: none.

    Raises:
        ConfigError: no tools, a price for no tool, or tools that the protocol cannot tell apart.
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
        """Tell the tools the example; nothing is said."""
        del seed
        self.gold = gold_answers({**example.columns, "answer": example.answer})
        for tool in self.tools.values():
            if isinstance(tool, KnowsExample):
                tool.begin(example)
        return Turn()

    def step(self, action: str) -> Turn:
        """Answer a call, or end."""
        self.said += action
        call, wrong = self.protocol.read(action, self.names)
        if call is None and not wrong:
            return Turn(done=True)
        if call is None:
            self.counts["malformed"] += 1
            return self._said(f"error: {wrong}")
        return self._said(self._answer(call))

    def _answer(self, call: Call) -> str:
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

    def _called(self, call: Call) -> str:
        tool = self.tools[call.name]
        bound = bind(tool, call)
        if not isinstance(tool, FunctionTool):  # which reads numbers from texts first
            check_kinds(bound)
        result = tool(*call.positional, **call.arguments)
        if not isinstance(result, str):
            raise TypeError(f"the tool {call.name} returned {result!r:.60}: must be a text")
        return result[:_LONGEST]

    def _said(self, result: str) -> Turn:
        observation, closing = self.protocol.told(result, self.names)
        return Turn(observation=observation, closing=closing)

    def facts(self) -> Mapping[str, float]:
        """What was called, to what effect, at what cost."""
        counts = {name: float(count) for name, count in self.counts.items()}
        return counts | {"tools_used": float(len(self.used)), "cost": self.cost} | self._noted()

    def _noted(self) -> dict[str, float]:
        if self.notes is None:
            return {}
        words = len(notes_of(self.said, self.notes).split())
        held = notes_hold(self.said, self.notes, self.gold)
        return {"note_words": float(words), "notes_hold_answer": float(held)}

    def close(self) -> None:
        """Close the tools that have something to close."""
        for tool in self.tools.values():
            if callable(close := getattr(tool, "close", None)):
                close()


def _tool(name: str, part: object) -> Tool:
    """The tool of a description: an object made for this episode, or a function as it is."""
    found = load(part.target, None) if isinstance(part, Unbuilt) else part
    if isinstance(part, Unbuilt) and inspect.isfunction(found):
        return FunctionTool(functools.partial(found, **part.arguments))
    made = _made(part)
    if not callable(made):
        raise ConfigError(
            f"Tools: the tool {name} is {made!r:.60}, which cannot be called: it is a function, or "
            "a class with a method __call__(self, query) (docs/how_to/tools.md)"
        )
    return made  # type: ignore[no-any-return]


def _made(part: Any, *, made: bool = False) -> Any:  # noqa: ANN401
    """The object of a description; what is no description is called, unless it is made."""
    if isinstance(part, Unbuilt):
        return load(part.target, part.arguments)
    return part if made else part()
