"""Interfaces of environment hosts, which own the environments of a batch of episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class EnvironmentFailure(NamedTuple):
    """Failure of an environment that raised an exception, crashed or took too long.

    Attributes:
        reason: the cause in one line.
    """

    reason: str


class Start(NamedTuple):
    """Start of an episode.

    Attributes:
        example: an example of the task.
        seed: seed of the environment's random numbers.
    """

    example: Example
    seed: int


class Host(Protocol):
    """Owner of the environments of the latest batch, one for each episode.

    A failure of an environment affects only its own episode.

    Attributes:
        stops: texts that end a turn of the policy.
    """

    stops: tuple[str, ...]

    def open(self, starts: Sequence[Start]) -> list[Turn | EnvironmentFailure]:
        """Make and reset an environment for each episode of a new batch; return the first turns."""
        ...

    def step(self, actions: Mapping[int, str]) -> dict[int, Turn | EnvironmentFailure]:
        """Return the next turns of some episodes after their actions, by episode number."""
        ...

    def fork(self, episode: int) -> int:
        """Add an episode in the same state as another one; return its number.

        The host calls the environment's own ``fork``, or replays the episode from the same seed
        with the same actions. The new episode fails if the replay differs.
        """
        ...

    def facts(self) -> list[Mapping[str, float] | EnvironmentFailure]:
        """Return the facts of each environment about its episode."""
        ...

    def close(self) -> None:
        """Free the resources of the environments."""
        ...


class Hosts(Protocol):
    """Interface of factories of hosts (``environment_pool``)."""

    def host(self, environment: object) -> Host:
        """Return a host for environments of one class, given as a callable or as its description.

        Raises:
            ConfigError: the environment cannot be made.
        """
        ...
