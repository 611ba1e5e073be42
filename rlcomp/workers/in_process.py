"""Executor of calls in the trainer's own process, without limits."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rlcomp.arguments import Unbuilt
from rlcomp.errors import in_one_line
from rlcomp.workers.executor import (
    RETRY_DELAYS,
    CallOutcome,
    loading_error,
    outcome_of,
    serialize_function,
)
from rlcomp.workers.function_call import TEMPORARY, FunctionCall, is_async, load


class InProcess:
    """Executor that makes calls one after another in the trainer's own process.

    Use it for trusted functions only: a call that ends the process ends the run. An exception makes
    a call fail as in a worker. Time, memory and output have no limits, except the time of ``async``
    functions while they wait.
    """

    def map(
        self,
        function: str | Unbuilt,
        arguments: Sequence[Mapping[str, object]],
        *,
        timeout: float,
        concurrency: int = 1,
        whole_batch: bool = False,
    ) -> list[CallOutcome]:
        """Make the calls and return their outcomes, in order.

        See :meth:`rlcomp.workers.executor.CallExecutor.map`. ``concurrency`` has no effect.

        Raises:
            ConfigError: the function cannot be imported, or the class cannot be instantiated.
        """
        del concurrency
        try:
            target = load(*serialize_function(function))
        except Exception as error:
            raise loading_error(function, in_one_line(error)) from error

        def call_once(text: str) -> list[Any]:
            # Each call parses its arguments anew, so that it cannot change another call's.
            call = FunctionCall(
                target, json.loads(text), whole_batch=whole_batch, output_limit=sys.maxsize
            )
            reply: list[Any] = json.loads(
                _run_async(call, timeout) if is_async(target) else call.run()
            )
            return reply

        return [_call_with_retries(call_once, json.dumps(each)) for each in arguments]


def _call_with_retries(call_once: Callable[[str], list[Any]], text: str) -> CallOutcome:
    """Make a call, and again after each of ``RETRY_DELAYS`` while it fails temporarily."""
    reply = call_once(text)
    for tries, delay in enumerate(RETRY_DELAYS, 1):
        if reply[0] != TEMPORARY:
            return outcome_of(reply, tries)
        time.sleep(delay)
        reply = call_once(text)
    return outcome_of(reply, len(RETRY_DELAYS) + 1)


def _run_async(call: FunctionCall, timeout: float) -> str:
    """Return the reply of an ``async`` call.

    It runs in a thread of its own, because a notebook's thread already has an event loop.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call.run_async(timeout)).result()
