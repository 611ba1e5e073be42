"""Environment hosts: where the environments of a batch of episodes live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class Broken(NamedTuple):
    """An environment that failed: it raised, crashed or took too long.

    Attributes:
        why: in one line.
    """

    why: str


class Start(NamedTuple):
    """What an episode begins with.

    Attributes:
        example: of the task.
        seed: whatever the environment draws follows from it.
    """

    example: Example
    seed: int


class Host(Protocol):
    """The environments of a batch, one for each episode. What fails costs its own episode.

    Attributes:
        stops: texts that end a turn of the policy.
    """

    stops: tuple[str, ...]

    def open(self, starts: Sequence[Start]) -> list[Turn | Broken]:
        """Make an environment for each episode and reset it."""
        ...

    def step(self, actions: Mapping[int, str]) -> dict[int, Turn | Broken]:
        """Answer the actions of some episodes, by their numbers."""
        ...

    def fork(self, episode: int) -> int:
        """Add an episode at the same place as another one; its number.

        By the environment's own ``fork``, or played again from the same seed with the same actions;
        one that says something else then is broken.
        """
        ...

    def facts(self) -> list[Mapping[str, float] | Broken]:
        """What each environment tells of its episode."""
        ...

    def close(self) -> None:
        """Free what the environments hold."""
        ...


class Hosts(Protocol):
    """What gives every batch of episodes a host (``environment_pool``)."""

    def host(self, environment: object) -> Host:
        """A host of environments of one kind: a class to call, or its description.

        Raises:
            ConfigError: no such environment can be made.
        """
        ...
