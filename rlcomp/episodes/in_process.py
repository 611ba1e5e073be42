"""Environments in the trainer's own process, without limits or isolation."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rlcomp.arguments import Unbuilt
from rlcomp.episodes.host import EnvironmentFailure, Host, Start
from rlcomp.episodes.remote import SAYS_ELSE, digest
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

Make = Callable[[], Environment]


class InProcessHosts:
    """Environments in the trainer's own process, stepped one after the other."""

    def host(self, environment: object) -> Host:
        """Return a host of environments of one kind.

        Raises:
            ConfigError: no such environment can be made.
        """
        return InProcessHost(maker(environment))


def maker(environment: object) -> Make:
    """Return a function that makes an environment from its class or description.

    Raises:
        ConfigError: its module cannot be imported.
    """
    if not isinstance(environment, Unbuilt):
        assert callable(environment)
        return environment
    described = environment

    def make() -> Environment:
        return load(described.target, described.arguments)  # type: ignore[return-value]

    return make


@dataclass
class _Played:
    """An episode so far: its actions, a digest of its turns, and the reason if it is lost."""

    start: Start
    actions: list[str] = field(default_factory=list)
    heard: bytes = b""
    lost: str = ""

    def hear(self, turn: Turn) -> None:
        self.heard = digest(self.heard, turn)


class InProcessHost:
    """The environments of a batch, one for each episode.

    Args:
        make: makes an environment.

    Raises:
        ConfigError: the environment cannot be made, or has no texts that end a turn (``stops``).
    """

    def __init__(self, make: Make) -> None:
        self.make = make
        self.stops = stops_of(make)
        self.environments: dict[int, Environment] = {}
        self.played: list[_Played] = []

    def open(self, starts: Sequence[Start]) -> list[Turn | EnvironmentFailure]:
        """Make an environment for each episode and reset it."""
        self.close()
        self.played = [_Played(start) for start in starts]
        return [self._opened(number, start) for number, start in enumerate(starts)]

    def _opened(self, number: int, start: Start) -> Turn | EnvironmentFailure:
        try:
            self.environments[number] = self.make()
            # A copy, so that changes of the example stay within this episode.
            example = copy.deepcopy(start.example)
            turn = check_turn(self.environments[number].reset(example, start.seed))
        except Exception as error:
            return EnvironmentFailure(in_one_line(error))
        self.played[number].hear(turn)
        return turn

    def step(self, actions: Mapping[int, str]) -> dict[int, Turn | EnvironmentFailure]:
        """Answer the actions of some episodes, by their numbers."""
        return {number: self._stepped(number, action) for number, action in actions.items()}

    def _stepped(self, number: int, action: str) -> Turn | EnvironmentFailure:
        played = self.played[number]
        if played.lost:
            return EnvironmentFailure(played.lost)
        try:
            turn = check_turn(self.environments[number].step(action))
        except Exception as error:
            return EnvironmentFailure(in_one_line(error))
        played.actions.append(action)
        played.hear(turn)
        return turn

    def fork(self, episode: int) -> int:
        """Add an episode in the same state as another one; return its number."""
        number, old = len(self.played), self.played[episode]
        environment = self.environments[episode]
        self.played.append(_Played(old.start))
        if isinstance(environment, Forkable):
            self.played[number] = replace(old, actions=[*old.actions])
            try:
                self.environments[number] = environment.fork()
            except Exception as error:
                self.played[number].lost = in_one_line(error)
        else:
            self._replay(number, old)
        return number

    def _replay(self, number: int, old: _Played) -> None:
        """Play an episode again from its seed, with the same actions."""
        turn = self._opened(number, old.start)
        for action in old.actions:
            if not isinstance(turn, EnvironmentFailure):
                turn = self._stepped(number, action)
        new = self.played[number]
        if isinstance(turn, EnvironmentFailure):
            new.lost = turn.reason
        elif new.heard != old.heard:
            new.lost = (
                f"{SAYS_ELSE}: let all that it draws follow from the seed of reset, or give it a "
                "method fork"
            )

    def facts(self) -> list[Mapping[str, float] | EnvironmentFailure]:
        """Return the facts of each environment about its episode."""
        return [_facts(self.environments.get(number)) for number in range(len(self.played))]

    def close(self) -> None:
        """Close the environments; ignore failures."""
        for environment in self.environments.values():
            with contextlib.suppress(Exception):
                environment.close()
        self.environments = {}


def stops_of(make: Make) -> tuple[str, ...]:
    """Return the texts that end a turn of an environment.

    Raises:
        ConfigError: the environment cannot be made, or has no such texts.
    """
    try:
        environment = make()
        stops = check_stops(environment)
        environment.close()
    except Exception as error:
        raise ConfigError(f"the environment cannot be made: {in_one_line(error)}") from error
    return stops


def _facts(environment: Environment | None) -> Mapping[str, float] | EnvironmentFailure:
    if environment is None:
        return {}
    try:
        return check_facts(environment.facts())
    except Exception as error:
        return EnvironmentFailure(in_one_line(error))
