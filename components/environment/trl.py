"""Environments written for TRL's ``environment_factory``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.episodes.tool_calls import CLOSE, Call, parse_calls
from rlcomp.episodes.tool_protocol import JsonCalls, told_together
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.tool import ToolError, check_kinds
from rlcomp.workers.call import load

# What is no tool.
_OWN = ("reset", "get_reward")


class TRL(metaclass=Checked):
    """An environment of TRL: ``reset(**row)``, public methods as tools, perhaps ``get_reward()``.

    ``reset`` is given the example's columns, ``prompt``, and ``answer`` if there is one; what it
    tells is never cut. A turn calls tools by
    ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``; their results come back in
    ``<tool_response>`` tags. A turn without a call ends the episode, which is when ``get_reward``
    is asked. What does not fit a tool's parameters, and a ValueError that it raises, is told to the
    policy; any other exception breaks the episode (TRL tells it them all).

    Args:
        name: dotted path of the class.
        settings: arguments that it is made with.
        describe: reset tells the tools, as JSON schemas made from annotations and docstrings.
        reward_each_turn: what ``get_reward`` has risen by is paid with each turn, also of episodes
            that meet a limit; else all of it with the last.
        stops: texts that end a turn of the policy; EOS always does.

    Raises:
        ConfigError: the class has no ``reset``, no tool, or one that is asynchronous.

    Source:
        TRL 1.16, ``GRPOTrainer(environment_factory=...)``.
    """

    def __init__(
        self,
        *,
        name: NonEmptyText,
        settings: Mapping[str, Any] | None = None,
        describe: bool = True,
        reward_each_turn: bool = False,
        stops: Sequence[NonEmptyText] = (CLOSE,),
    ) -> None:
        self.peer: Any = load(name, dict(settings or {}))
        self.methods = _methods(self.peer)
        self.tools = {key: each for key, each in self.methods.items() if key not in _OWN}
        if "reset" not in self.methods or not self.tools:
            raise ConfigError(f"name is {name!r}: the class must have reset and a public method")
        later = [key for key, each in self.methods.items() if inspect.iscoroutinefunction(each)]
        if later:
            raise ConfigError(f"name is {name!r}: {later[0]} is asynchronous: wrap it")
        self.describe = describe
        self.reward_each_turn = reward_each_turn
        self.stops = tuple(stops)
        self.calls = self.failed = 0
        self.paid = 0.0

    def reset(self, example: Example, seed: int) -> Turn:
        """Begin with the example's row. It is given no seed: its interface knows none."""
        del seed
        answer = {"answer": example.answer} if example.answer else {}
        row = {"prompt": example.prompt, **answer, **example.columns}
        told = self.methods["reset"](**row) or ""
        lines = [*map(_described, self.tools.values())] if self.describe else []
        return Turn(closing="".join(f"{line}\n" for line in lines) + told)

    def step(self, action: str) -> Turn:
        """Make the calls of a turn; without one the episode is over."""
        calls = parse_calls(action)
        if not calls:
            return Turn(done=True, reward=self._reward())
        wrong = isinstance(calls, str)
        results = [calls] if isinstance(calls, str) else [self._result(call) for call in calls]
        self.failed += wrong
        observation, closing = told_together(JsonCalls(), results)
        reward = self._reward() if self.reward_each_turn else 0.0
        return Turn(observation=observation, closing=closing, reward=reward)

    def _result(self, call: Call) -> str:
        self.calls += 1
        try:
            if call.name not in self.tools:
                raise ToolError(f"there is no tool {call.name!r}: {', '.join(self.tools)}")
            tool = self.tools[call.name]
            try:
                bound = inspect.signature(tool).bind(**call.arguments)
            except TypeError as error:
                raise ToolError(f"{call.name}: {error}") from error
            check_kinds(bound)
            return str(tool(**call.arguments))
        except (ValueError, ToolError) as error:
            self.failed += 1
            return f"Error: {error}"

    def _reward(self) -> float:
        """What is owed: all of the reward but what was paid."""
        if "get_reward" not in self.methods:
            return 0.0
        before, self.paid = self.paid, float(self.methods["get_reward"]())
        return self.paid - before

    def facts(self) -> Mapping[str, float]:
        """How many ``calls`` were made, and how many ``failed``."""
        return {"calls": float(self.calls), "failed": float(self.failed)}

    def close(self) -> None:
        """Nothing is held: its interface has no end."""


def _methods(peer: object) -> dict[str, Callable[..., Any]]:
    """Its public methods; of the class, so that no property is evaluated."""
    found = inspect.getmembers(type(peer), predicate=inspect.isfunction)
    return {name: getattr(peer, name) for name, _ in found if not name.startswith("_")}


def _described(tool: Callable[..., Any]) -> str:
    from transformers.utils import get_json_schema

    return json.dumps(get_json_schema(tool), ensure_ascii=False)
