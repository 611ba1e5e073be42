"""Interface of executors of function calls, and the outcomes of the calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError
from rlcomp.workers.function_call import TEMPORARY

# Seconds before each retry of a call that failed temporarily.
RETRY_DELAYS = (0.1, 0.5, 2.0)

Kind = Literal["time", "memory", "output", "died", "error"]
# Kinds of replies about a finished call; ``scored``: the call returned a value.
_REPLY_KINDS = ("scored", TEMPORARY, *get_args(Kind))


@dataclass(frozen=True)
class ReturnedCall:
    """Call that returned a value.

    Attributes:
        value: returned value, made of JSON's types.
        seconds: duration of the call.
        tries: number of times that the call was made.
        metrics: name and value of each logged metric (``log_metric``).
    """

    value: object
    seconds: float
    tries: int = 1
    metrics: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class FailedCall:
    """Call that returned no value.

    Attributes:
        kind: cause of the failure: the limit on time, memory or output, the death of the process
            (``died``), or an exception (``error``). A value that JSON cannot hold is an ``error``.
        message: description of the failure in one line.
        tries: number of times that the call was made.
    """

    kind: Kind
    message: str
    tries: int = 1


CallOutcome = ReturnedCall | FailedCall


class CallExecutor(Protocol):
    """Executor of function calls."""

    def map(
        self,
        function: str | Unbuilt,
        arguments: Sequence[Mapping[str, object]],
        *,
        timeout: float,
        concurrency: int = 1,
        whole_batch: bool = False,
    ) -> list[CallOutcome]:
        """Call a function once for each mapping of arguments and return the outcomes.

        Args:
            function: dotted path of a function; or the dotted path and the constructor's
                arguments of a class whose instances are called.
            arguments: values by parameter name for each call, made of JSON's types.
            timeout: time limit of a call, in seconds.
            concurrency: number of concurrent calls of an ``async`` function in one process.
            whole_batch: whether a call is for a whole batch instead of a row, as TRL calls its
                reward functions. Then the arguments ``trainer_state`` and ``log_metric`` are
                replaced by the objects that TRL's trainer passes.

        Returns:
            One outcome per call, in order.

        Raises:
            ConfigError: the function cannot be imported, or the class cannot be instantiated.
        """
        ...


# Reply of a worker about a loaded function or a finished call (:mod:`rlcomp.workers.worker_loop`).
Reply = list[Any]


def read_reply(line: bytes) -> Reply | None:
    """Return the reply in a line of a worker; None for a line that is no reply.

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
        is_load_result = reply == ["loaded"] or (len(reply) == 2 and reply[0] == "unloadable")
        return reply if is_load_result else None
    number, kind, _, seconds, metrics = reply if len(reply) == 5 else (None,) * 5
    is_call = isinstance(number, int) and kind in _REPLY_KINDS and isinstance(seconds, (int, float))
    return reply if is_call and _are_metrics(metrics) else None


def _are_metrics(metrics: object) -> bool:
    return isinstance(metrics, list) and all(
        isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and isinstance(pair[1], (int, float))
        for pair in metrics
    )


def outcome_of(reply: Sequence[Any], tries: int) -> CallOutcome:
    """Return the outcome of a call from its reply without the number of the call.

    ``reply`` holds kind, value or message, seconds and metrics.
    """
    kind, content, seconds, metrics = reply
    if kind == "scored":
        return ReturnedCall(content, seconds, tries, tuple(map(tuple, metrics)))
    if kind == TEMPORARY:
        return FailedCall("error", f"{content}, after {tries} tries", tries)
    return FailedCall(kind, content, tries)


def serialize_function(function: str | Unbuilt) -> tuple[str, dict[str, object] | None]:
    """Return the dotted path of a function or class, and the class's arguments (else None)."""
    if isinstance(function, str):
        return function, None
    return function.target, dict(function.arguments)


def loading_error(function: str | Unbuilt, reason: str) -> ConfigError:
    """Return the error for a function that cannot be imported or instantiated."""
    return ConfigError(f"{serialize_function(function)[0]} cannot be called: {reason}")
