"""Environments in the trainer's own process, without limits or isolation."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rlcomp.arguments import Unbuilt
from rlcomp.episodes.host import EnvironmentFailure, Host, Start
from rlcomp.episodes.remote import REPLAY_DIFFERS, turn_digest
from rlcomp.errors import ConfigError, in_one_line
from rlcomp.interfaces.environment import (
    Environment,
    Forkable,
    Turn,
    check_facts,
    check_stops,
    check_turn,
)
from rlcomp.workers.function_call import load


class InProcessHosts:
    """Environments in the trainer's own process, stepped one after the other."""

    def host(self, environment: object) -> Host:
        """Return a host of environments of one kind.

        Raises:
            ConfigError: no such environment can be made.
        """
        make: Any = environment
        if isinstance(environment, Unbuilt):
            make = partial(load, environment.target, environment.arguments)
        return InProcessHost(make)


@dataclass
class _History:
    """Actions of an episode, a digest of its turns, and the reason of a failed fork."""

    start: Start
    actions: list[str] = field(default_factory=list)
    digest: bytes = b""
    failure: str = ""

    def append(self, turn: Turn) -> None:
        self.digest = turn_digest(self.digest, turn)


class InProcessHost:
    """Host of environments of one kind; :meth:`open` makes those of the next batch.

    It keeps the start and the actions of each episode, because an environment without a method
    ``fork`` is forked by a replay.

    Args:
        make: makes an environment.

    Raises:
        ConfigError: the environment cannot be made, or has no texts that end a turn (``stops``).
    """

    def __init__(self, make: Callable[[], Environment]) -> None:
        self.make = make
        try:
            environment = make()
            self.stops = check_stops(environment)
            environment.close()
        except Exception as error:
            raise ConfigError(f"the environment cannot be made: {in_one_line(error)}") from error
        self.environments: dict[int, Environment] = {}
        self.histories: list[_History] = []

    def open(self, starts: Sequence[Start]) -> list[Turn | EnvironmentFailure]:
        """Make an environment for each episode and reset it."""
        self.close()
        self.histories = [_History(start) for start in starts]
        return [self._open(number, start) for number, start in enumerate(starts)]

    def _open(self, number: int, start: Start) -> Turn | EnvironmentFailure:
        try:
            self.environments[number] = self.make()
            example = copy.deepcopy(start.example)  # the environment may change it
            turn = check_turn(self.environments[number].reset(example, start.seed))
        except Exception as error:
            return EnvironmentFailure(in_one_line(error))
        self.histories[number].append(turn)
        return turn

    def step(self, actions: Mapping[int, str]) -> dict[int, Turn | EnvironmentFailure]:
        """Answer the actions of some episodes, by their numbers."""
        return {number: self._step(number, action) for number, action in actions.items()}

    def _step(self, number: int, action: str) -> Turn | EnvironmentFailure:
        history = self.histories[number]
        if history.failure:
            return EnvironmentFailure(history.failure)
        try:
            turn = check_turn(self.environments[number].step(action))
        except Exception as error:
            return EnvironmentFailure(in_one_line(error))
        history.actions.append(action)
        history.append(turn)
        return turn

    def fork(self, episode: int) -> int:
        """Add an episode in the same state as another one; return its number.

        If the fork or the replay fails, the first step of the new episode returns the failure.
        """
        number, old = len(self.histories), self.histories[episode]
        environment = self.environments[episode]
        self.histories.append(_History(old.start))
        if isinstance(environment, Forkable):
            self.histories[number] = replace(old, actions=[*old.actions])
            try:
                self.environments[number] = environment.fork()
            except Exception as error:
                self.histories[number].failure = in_one_line(error)
        else:
            self._replay(number, old)
        return number

    def _replay(self, number: int, old: _History) -> None:
        """Play an episode again from its seed, with the same actions."""
        turn = self._open(number, old.start)
        for action in old.actions:
            if not isinstance(turn, EnvironmentFailure):
                turn = self._step(number, action)
        new = self.histories[number]
        if isinstance(turn, EnvironmentFailure):
            new.failure = turn.reason
        elif new.digest != old.digest:
            new.failure = (
                f"{REPLAY_DIFFERS}: derive its random draws from the seed of reset, or give it a "
                "method fork"
            )

    def facts(self) -> list[Mapping[str, float] | EnvironmentFailure]:
        """Return the facts of each environment about its episode; none without an environment."""
        return [_facts(self.environments.get(number)) for number in range(len(self.histories))]

    def close(self) -> None:
        """Close the environments; ignore failures."""
        for environment in self.environments.values():
            with contextlib.suppress(Exception):
                environment.close()
        self.environments = {}


def _facts(environment: Environment | None) -> Mapping[str, float] | EnvironmentFailure:
    if environment is None:
        return {}
    try:
        return check_facts(environment.facts())
    except Exception as error:
        return EnvironmentFailure(in_one_line(error))
