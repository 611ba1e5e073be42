"""Calls of functions named by dotted path: what runs them, and what comes of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError
from rlcomp.workers.call import TEMPORARY

# Seconds before a call that failed temporarily is tried again; after the last it has failed.
WAITS = (0.1, 0.5, 2.0)

Kind = Literal["time", "memory", "output", "died", "error"]
_KINDS = ("scored", TEMPORARY, *get_args(Kind))


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


# What a worker says: of a function that it was loaded or cannot be, of a call what came of it.
Reply = list[Any]


def read_reply(line: bytes) -> Reply | None:
    """A line of a worker; None where it is none that :mod:`rlcomp.workers.worker` writes.

    Examples:
        >>> read_reply(b'[3, "scored", 1.0, 0.2, []]'), read_reply(b'["loaded"]'), read_reply(b"3")
        ([3, 'scored', 1.0, 0.2, []], ['loaded'], None)
    """
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, list):
        return None
    if len(told) < 5:
        known = told == ["loaded"] or (len(told) == 2 and told[0] == "unloadable")
        return told if known else None
    number, kind, _, seconds, metrics = told if len(told) == 5 else (None,) * 5
    is_call = isinstance(number, int) and kind in _KINDS and isinstance(seconds, (int, float))
    return told if is_call and _are_metrics(metrics) else None


def _are_metrics(metrics: object) -> bool:
    return isinstance(metrics, list) and all(
        isinstance(each, list)
        and len(each) == 2
        and isinstance(each[0], str)
        and isinstance(each[1], (int, float))
        for each in metrics
    )


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
