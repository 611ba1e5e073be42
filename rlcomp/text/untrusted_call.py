"""Calls on untrusted input: in a worker process, under limits of time and memory."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rlcomp.errors import DataError
from rlcomp.workers.executor import FailedCall
from rlcomp.workers.pool import WorkerPool

_GIB = 4.0
# Characters of JSON that a call may return: a rendered text, each character as an escape.
_LONGEST = 6 << 24

Value = TypeVar("Value")


def untrusted_call(
    function: str, arguments: Mapping[str, object], *, seconds: float, subject: str, remedy: str
) -> Any:  # noqa: ANN401
    """Call a function in this process's worker process for untrusted input.

    Args:
        function: its dotted path.
        arguments: by name, in the types of JSON.
        seconds: limit of the call.
        subject: the input, for messages: ``the tokenizer.json at 'DIR'``.
        remedy: for messages.

    Returns:
        The result of the function.

    Raises:
        DataError: a limit was exceeded, the process died, or the function raised an error.
    """
    (outcome,) = _pool(os.getpid()).map(function, [arguments], timeout=seconds)
    if not isinstance(outcome, FailedCall):
        return outcome.value
    limits = {
        "time": f"takes more than {seconds:g} s to read",
        "memory": f"takes more than {_GIB:g} GiB to read",
        "output": f"makes more than {_LONGEST:,} characters",
    }
    fault = limits.get(outcome.kind, f"cannot be read ({outcome.message})")
    raise DataError(f"{subject} {fault}: {remedy}")


@functools.lru_cache(maxsize=1)
def _pool(process: int) -> WorkerPool:
    """Return the pool of a process; a fork does not share its parent's."""
    del process
    return WorkerPool(num_workers=1, memory_gib=_GIB, output_limit=_LONGEST)


def within(seconds: float, call: Callable[[], Value]) -> Value:
    """Call a function that releases the GIL, such as a tokenizer's, in a thread.

    Signal handlers run in the meantime. A call that exceeds the limit goes on until the process
    ends.

    Args:
        seconds: limit of the call.
        call: without arguments.

    Raises:
        TimeoutError: it takes longer.
    """
    results, errors = list[Value](), list[BaseException]()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"more than {seconds:g} s")
    return results[0]
