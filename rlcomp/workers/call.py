"""Call of a function: import by dotted path, arguments by name, result as JSON.

Imported by the worker processes: standard library only.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import reprlib
import time
import traceback
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from rlcomp.errors import Temporary, in_one_line

# Kind of a failure, beside the kinds of rlcomp.workers.calls: the call is tried again.
TEMPORARY = "temporary"


class OutputLimit(BaseException):
    """Error of a call that printed or returned too much; ``except Exception`` must not catch it."""


def load(path: str, arguments: Mapping[str, object] | None) -> Callable[..., Any]:
    """Return the function at a dotted path; with arguments, an instance of the class there."""
    module, _, name = path.rpartition(".")
    target: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return target if arguments is None else target(**arguments)


def is_async(function: Callable[..., object]) -> bool:
    """Return whether a function, or the call of an object, is a coroutine."""
    own = getattr(type(function), "__call__", None)  # noqa: B004 - of an object's class
    return any(map(inspect.iscoroutinefunction, (function, own)))


class Call:
    """A call and its reply.

    Args:
        function: the function to call.
        arguments: by name.
        whole_batch: as for :meth:`rlcomp.workers.calls.Calls.map`.
        output_limit: of the result, in characters of JSON.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: dict[str, Any],
        *,
        whole_batch: bool,
        output_limit: int,
    ) -> None:
        self.function, self.arguments = function, arguments
        self.output_limit = output_limit
        self.metrics: list[tuple[str, float]] = []
        if whole_batch and "log_metric" in arguments:
            arguments["log_metric"] = self._log
        if whole_batch and "trainer_state" in arguments:
            arguments["trainer_state"] = SimpleNamespace(**arguments["trainer_state"])

    def _log(self, name: str, value: float) -> None:
        self.metrics.append((str(name), float(value)))

    def run(self) -> str:
        """Make the call; return the reply as JSON: kind, value or message, seconds, metrics."""
        start = time.perf_counter()
        try:
            value = self.function(**self.arguments)
            return self._scored(value, start)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failure(error)

    async def run_async(self, timeout: float) -> str:
        """Await the call; cancel it when it takes longer."""
        start = time.perf_counter()
        try:
            task = asyncio.ensure_future(self.function(**self.arguments))
            _, pending = await asyncio.wait([task], timeout=timeout)
            if pending:
                task.cancel()
                return json.dumps(["time", f"ran for more than {timeout:g} s", 0.0, []])
            return self._scored(task.result(), start)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failure(error)

    def _scored(self, value: object, start: float) -> str:
        seconds = time.perf_counter() - start
        try:
            text = json.dumps(value, default=_plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"returned {_shown(value)}, which is not JSON: {error}") from None
        if len(text) > self.output_limit:
            raise OutputLimit(f"returned {len(text)} characters, {text[:60]}...")
        return f'["scored", {text}, {seconds}, {json.dumps(self.metrics)}]'


def _plain(value: Any) -> object:  # noqa: ANN401
    """Convert arrays and tensors to lists or numbers, other numbers (fractions, ...) to floats."""
    return value.tolist() if hasattr(value, "tolist") else float(value)


def _shown(value: object) -> str:
    try:
        return reprlib.repr(value)[:60]
    except ValueError:  # an integer of thousands of digits
        return f"a {type(value).__name__}"


def failure(error: BaseException) -> str:
    """Return the reply for an exception: its kind, and its message and place in one line."""
    kind = "error"
    if isinstance(error, OutputLimit):
        return json.dumps(["output", str(error), 0.0, []])
    if isinstance(error, MemoryError):
        kind = "memory"
    elif isinstance(error, (Temporary, ConnectionError, TimeoutError)):
        kind = TEMPORARY
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__
    ]
    where = (
        f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    )
    return json.dumps([kind, in_one_line(error) + where, 0.0, []])
