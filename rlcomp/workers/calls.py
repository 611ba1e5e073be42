"""Interface of executors: calls of functions named by dotted path, and their outcomes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError
from rlcomp.workers.call import TEMPORARY

# Seconds before each new try of a call that failed temporarily; after the last try it has failed.
WAITS = (0.1, 0.5, 2.0)

Kind = Literal["time", "memory", "output", "died", "error"]
_KINDS = ("scored", TEMPORARY, *get_args(Kind))


@dataclass(frozen=True)
class Scored:
    """A call that returned.

    Attributes:
        value: in the types of JSON.
        seconds: duration of the call.
        tries: number of tries.
        metrics: name and value of each logged metric (``log_metric``).
    """

    value: object
    seconds: float
    tries: int = 1
    metrics: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Failed:
    """A call that did not return.

    Attributes:
        kind: cause of the failure: the limit on time, memory or output, the death of its process,
            or an exception (also for a value that JSON cannot hold).
        message: in one line.
        tries: number of tries.
    """

    kind: Kind
    message: str
    tries: int = 1


Outcome = Scored | Failed


class Calls(Protocol):
    """Executor of calls."""

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
            function: its dotted path; for an object, the path of its class and the arguments of its
                constructor.
            arguments: by name, in the types of JSON.
            timeout: limit of one call, in seconds.
            concurrency: number of concurrent calls of an ``async`` function in one process.
            whole_batch: ``trainer_state`` and ``log_metric``, if they are among the arguments,
                become the objects that TRL's trainer passes to its reward functions under these
                names.

        Returns:
            One outcome per call, in order.

        Raises:
            ConfigError: the function cannot be imported, or its object cannot be made.
        """
        ...


# Message of a worker: the result of loading a function, or the outcome of a call.
Reply = list[Any]


def read_reply(line: bytes) -> Reply | None:
    """Read a line of a worker; return None for a line of another origin.

    Examples:
        >>> read_reply(b'[3, "scored", 1.0, 0.2, []]'), read_reply(b'["loaded"]'), read_reply(b"3")
        ([3, 'scored', 1.0, 0.2, []], ['loaded'], None)
    """
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(reply, list):
        return None
    if len(reply) < 5:
        known = reply == ["loaded"] or (len(reply) == 2 and reply[0] == "unloadable")
        return reply if known else None
    number, kind, _, seconds, metrics = reply if len(reply) == 5 else (None,) * 5
    is_call = isinstance(number, int) and kind in _KINDS and isinstance(seconds, (int, float))
    return reply if is_call and _are_metrics(metrics) else None


def _are_metrics(metrics: object) -> bool:
    return isinstance(metrics, list) and all(
        isinstance(each, list)
        and len(each) == 2
        and isinstance(each[0], str)
        and isinstance(each[1], (int, float))
        for each in metrics
    )


def outcome_of(reply: Sequence[Any], tries: int) -> Outcome:
    """Return the outcome in a reply of :class:`rlcomp.workers.call.Call`.

    Args:
        reply: kind, value or message, seconds, metrics.
        tries: number of tries.
    """
    kind, content, seconds, metrics = reply
    if kind == "scored":
        return Scored(content, seconds, tries, tuple((name, value) for name, value in metrics))
    if kind == TEMPORARY:
        return Failed("error", f"{content}, after {tries} tries", tries)
    return Failed(kind, content, tries)


def described(function: str | Unbuilt) -> tuple[str, dict[str, object] | None]:
    """Return dotted path, and the arguments of the class there or None, as they are sent."""
    if isinstance(function, str):
        return function, None
    return function.target, dict(function.arguments)


def unloadable(function: str | Unbuilt, why: str) -> ConfigError:
    """Return the error of a function that cannot be imported, or whose object cannot be made."""
    return ConfigError(f"{described(function)[0]} cannot be called: {why}")
