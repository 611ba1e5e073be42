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
from rlcomp.workers.function_call import load


class TRL(metaclass=Checked):
    """Adapter of an environment of TRL: ``reset(**row)``, public methods as tools.

    ``reset`` gets the example's columns, ``prompt``, and ``answer`` if there is one; its text is
    never cut. A turn calls tools by ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``;
    their results come back in ``<tool_response>`` tags. A turn without a call ends the episode, and
    then ``get_reward()`` is called if there is one. The policy reads the message of wrong arguments
    and of a ValueError; any other exception makes the episode fail (TRL returns all messages).

    Args:
        name: dotted path of the class.
        settings: arguments of its constructor.
        describe: whether the first observation holds JSON schemas of the tools, made from
            annotations and docstrings.
        reward_each_turn: whether each turn is paid the increase of ``get_reward``, also in episodes
            that reach a limit; otherwise the last turn is paid all of it.
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
        """Reset with the example's row, without a seed: its interface has none."""
        del seed
        answer = {"answer": example.answer} if example.answer else {}
        text = self.begin(**{"prompt": example.prompt, **answer, **example.columns}) or ""
        return Turn(closing=described(self.tools) + text if self.describe else text)

    def step(self, action: str) -> Turn:
        """Make the calls of a turn; end the episode if there is none."""
        calls = parse_calls(action)
        turn = self.calls.turn(calls) if calls else Turn(done=True)
        owed = self._owed() if turn.done or self.reward_each_turn else 0.0
        return replace(turn, reward=owed)

    def _owed(self) -> float:
        """Return the part of the reward that is not paid yet."""
        before, self.paid = self.paid, float(self.reward())
        return self.paid - before

    def facts(self) -> Mapping[str, float]:
        """Return the number of ``calls``, and of those that ``failed``."""
        return self.calls.facts()

    def close(self) -> None:
        """No-op: its interface has no ``close``."""
