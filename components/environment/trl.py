"""Adapter of environments for TRL's ``environment_factory``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText
from rlcomp.episodes.tool_calls import parse_calls
from rlcomp.episodes.tool_execution import (
    ToolCallExecutor,
    call_method,
    public_methods,
    schema_lines,
)
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.verify.tool_calls import CLOSE
from rlcomp.workers.function_call import load


class TRL(metaclass=Checked):
    """Adapter of a TRL environment, which has ``reset(**row)`` and public methods as tools.

    ``reset`` gets ``prompt``, ``answer`` if the example has one, and the example's columns; the
    text that it returns is never cut. A turn calls tools by
    ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` and gets their results in
    ``<tool_response>`` tags. A turn without a call ends the episode; its reward is
    ``get_reward()``, if there is one. A malformed call, wrong arguments and a ValueError have a
    result with the error message; any other exception makes the episode fail. (In TRL the message
    of every exception is a result.) An object plays one episode; TRL resets the same object again.

    Args:
        name: dotted path of the class.
        settings: arguments of its constructor.
        describe: whether the first observation holds JSON schemas of the tools, made from
            annotations and docstrings.
        reward_each_turn: whether the reward of each turn is the increase of ``get_reward``, so that
            truncated episodes have rewards, too; otherwise only the last turn has one.
        stops: texts that end a turn of the policy, in addition to EOS.

    Raises:
        ConfigError: the class has no ``reset`` or no tool, or has an asynchronous tool.

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
        self.calls = ToolCallExecutor(partial(call_method, self.tools))
        self.previous_reward = 0.0

    def reset(self, example: Example, seed: int) -> Turn:
        """Reset the environment with the example; ``seed`` is ignored, as TRL has none."""
        del seed
        answer = {"answer": example.answer} if example.answer else {}
        text = self.begin(**{"prompt": example.prompt, **answer, **example.columns}) or ""
        return Turn(closing=schema_lines(self.tools) + text if self.describe else text)

    def step(self, action: str) -> Turn:
        """Return the results of a turn's calls; a turn without a call ends the episode."""
        calls = parse_calls(action)
        turn = self.calls.turn(calls) if calls else Turn(done=True)
        reward = self._reward_increase() if turn.done or self.reward_each_turn else 0.0
        return replace(turn, reward=reward)

    def _reward_increase(self) -> float:
        """Return the increase of the reward since the last call of this method."""
        previous, self.previous_reward = self.previous_reward, float(self.reward())
        return self.previous_reward - previous

    def facts(self) -> Mapping[str, float]:
        """Return the numbers of ``calls``, and of failed calls and malformed turns (``failed``)."""
        return self.calls.facts()

    def close(self) -> None:
        """No-op, because TRL's environments have no ``close``."""
