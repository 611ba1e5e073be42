"""Calls of functions named by dotted path: what runs them, and what comes of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError
from rlcomp.workers.call import TEMPORARY

# Seconds before a call that failed temporarily is tried again; after the last it has failed.
WAITS = (0.1, 0.5, 2.0)

Kind = Literal["time", "memory", "output", "died", "error"]


@dataclass(frozen=True)
class Scored:
    """A call that returned.

    Attributes:
        value: as JSON holds it.
        seconds: that the call took.
        tries: how often it was made.
        metrics: name and value of what it logged (``log_metric``).
    """

    value: object
    seconds: float
    tries: int = 1
    metrics: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Failed:
    """A call that did not return.

    Attributes:
        kind: what ended it: the limit on time, memory or output, the death of its process, or an
            exception (also a value that is no JSON).
        message: in one line.
        tries: how often it was made.
    """

    kind: Kind
    message: str
    tries: int = 1


Outcome = Scored | Failed


class Calls(Protocol):
    """What runs calls."""

    def map(
        self,
        function: str | Unbuilt,
        arguments: Sequence[Mapping[str, object]],
        *,
        timeout: float,
        concurrency: int = 1,
        whole_batch: bool = False,
    ) -> list[Outcome]:
        """Call a function once for each mapping of arguments.

        Args:
            function: its dotted path; of an object, the path of its class and the arguments of its
                constructor.
            arguments: by name, each as JSON holds it.
            timeout: limit of one call, in seconds.
            concurrency: how many calls of an ``async`` function run at a time in one process.
            whole_batch: ``trainer_state`` and ``log_metric``, where they are among the arguments,
                become what TRL's trainer hands its reward functions under these names.

        Returns:
            One outcome a call, in order.

        Raises:
            ConfigError: the function cannot be imported, or its object not made.
        """
        ...


def outcome_of(reply: Sequence[Any], tries: int) -> Outcome:
    """What a reply of :class:`rlcomp.workers.call.Call` says.

    Args:
        reply: kind, value or message, seconds, metrics.
        tries: how often the call was made.
    """
    kind, told, seconds, metrics = reply
    if kind == "scored":
        return Scored(told, seconds, tries, tuple((name, value) for name, value in metrics))
    if kind == TEMPORARY:
        return Failed("error", f"{told}, after {tries} tries", tries)
    return Failed(kind, told, tries)


def described(function: str | Unbuilt) -> tuple[str, dict[str, object] | None]:
    """Dotted path, and the arguments of the class there or None, as they are sent."""
    if isinstance(function, str):
        return function, None
    return function.target, dict(function.arguments)


def unloadable(function: str | Unbuilt, why: str) -> ConfigError:
    """Error of a function that cannot be imported, or whose object cannot be made."""
    return ConfigError(f"{described(function)[0]} cannot be called: {why}")
