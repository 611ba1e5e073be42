"""Call of a function at a dotted path; its result is JSON.

Worker processes import this module. It imports the standard library and :mod:`rlcomp.errors` only,
so that a worker starts without torch.
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

# Kind of the reply for a failure after which the call is made again.
TEMPORARY = "temporary"


class OutputLimit(BaseException):
    """Error of a call that printed or returned too much; ``except Exception`` must not catch it."""


def load(path: str, arguments: Mapping[str, object] | None) -> Callable[..., Any]:
    """Return the function at a dotted path; with ``arguments``, an instance of that class."""
    module, _, name = path.rpartition(".")
    target: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return target if arguments is None else target(**arguments)


def is_async(function: Callable[..., object]) -> bool:
    """Return whether a function or an object's ``__call__`` is a coroutine function."""
    method = getattr(type(function), "__call__", None)  # noqa: B004 - the class's method
    return any(map(inspect.iscoroutinefunction, (function, method)))


class FunctionCall:
    """Call of a function.

    Args:
        function: the function to call.
        arguments: values by parameter name; changed by ``whole_batch``.
        whole_batch: whether to replace ``log_metric`` and ``trainer_state`` by the objects of TRL
            (:meth:`rlcomp.workers.executor.CallExecutor.map`).
        output_limit: maximum length of the result, in characters of JSON.
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
            arguments["log_metric"] = self._record_metric
        if whole_batch and "trainer_state" in arguments:
            arguments["trainer_state"] = SimpleNamespace(**arguments["trainer_state"])

    def _record_metric(self, name: str, value: float) -> None:
        self.metrics.append((str(name), float(value)))

    def run(self) -> str:
        """Make the call; return the reply as JSON: kind, value or message, seconds, metrics.

        Every exception becomes a reply, except ``KeyboardInterrupt``.
        """
        start = time.perf_counter()
        try:
            value = self.function(**self.arguments)
            return self._encode_result(value, start)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failure_reply(error)

    async def run_async(self, timeout: float) -> str:
        """Await the call and return the reply as JSON; cancel it after ``timeout`` seconds."""
        start = time.perf_counter()
        try:
            task = asyncio.ensure_future(self.function(**self.arguments))
            _, pending = await asyncio.wait([task], timeout=timeout)
            if pending:
                task.cancel()
                return json.dumps(["time", f"ran for more than {timeout:g} s", 0.0, []])
            return self._encode_result(task.result(), start)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failure_reply(error)

    def _encode_result(self, value: object, start: float) -> str:
        seconds = time.perf_counter() - start
        try:
            text = json.dumps(value, default=_to_json_type)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"returned {_abbreviate(value)}, not JSON: {error}") from None
        if len(text) > self.output_limit:
            raise OutputLimit(f"returned {len(text)} characters, {text[:60]}...")
        return f'["scored", {text}, {seconds}, {json.dumps(self.metrics)}]'


def _to_json_type(value: Any) -> object:  # noqa: ANN401
    """Convert an array or a tensor to lists or a number, and any other number to a float."""
    return value.tolist() if hasattr(value, "tolist") else float(value)


def _abbreviate(value: object) -> str:
    try:
        return reprlib.repr(value)[:60]
    except ValueError:  # an integer of thousands of digits
        return f"a {type(value).__name__}"


def failure_reply(error: BaseException) -> str:
    """Return the reply for an exception as JSON: kind, message, 0, no metrics.

    The message ends with the file and line of the code, but not for an :class:`OutputLimit`.
    """
    kind = "error"
    if isinstance(error, OutputLimit):
        return json.dumps(["output", str(error), 0.0, []])
    if isinstance(error, MemoryError):
        kind = "memory"
    elif isinstance(error, (Temporary, ConnectionError, TimeoutError)):
        kind = TEMPORARY
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    line = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    return json.dumps([kind, in_one_line(error) + line, 0.0, []])
