"""Environments written for TRL's ``environment_factory``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.episodes.answered_calls import AnsweredCalls
from rlcomp.episodes.method_tools import call_method, described, public_methods
from rlcomp.episodes.tool_calls import parse_calls
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.verify.tool_calls import CLOSE
from rlcomp.workers.call import load


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
        self.tools = public_methods(self.peer)
        self.begin: Any = self.tools.pop("reset", None)
        self.reward = self.tools.pop("get_reward", lambda: 0.0)
        if self.begin is None or not self.tools:
            raise ConfigError(f"name is {name!r}: the class must have reset and a public method")
        self.describe = describe
        self.reward_each_turn = reward_each_turn
        self.stops = tuple(stops)
        self.calls = AnsweredCalls(partial(call_method, self.tools))
        self.paid = 0.0

    def reset(self, example: Example, seed: int) -> Turn:
        """Begin with the example's row. It is given no seed: its interface knows none."""
        del seed
        answer = {"answer": example.answer} if example.answer else {}
        told = self.begin(**{"prompt": example.prompt, **answer, **example.columns}) or ""
        return Turn(closing=described(self.tools) + told if self.describe else told)

    def step(self, action: str) -> Turn:
        """Make the calls of a turn; without one the episode is over."""
        calls = parse_calls(action)
        turn = self.calls.turn(calls) if calls else Turn(done=True)
        owed = self._owed() if turn.done or self.reward_each_turn else 0.0
        return replace(turn, reward=owed)

    def _owed(self) -> float:
        """All of the reward but what was paid."""
        before, self.paid = self.paid, float(self.reward())
        return self.paid - before

    def facts(self) -> Mapping[str, float]:
        """How many ``calls`` were made, and how many ``failed``."""
        return self.calls.facts()

    def close(self) -> None:
        """Nothing is held: its interface has no end."""
