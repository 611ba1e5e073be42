"""Calls in the process itself: no limit holds, and what ends the process ends the run."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from rlcomp.arguments import Unbuilt
from rlcomp.errors import in_one_line
from rlcomp.workers.call import TEMPORARY, Call, is_async, load
from rlcomp.workers.calls import WAITS, Outcome, described, outcome_of, unloadable


class InProcess:
    """Calls one after the other in the trainer's own process: for functions without a mistake.

    An exception makes a call fail as it does in a worker. Time, memory and output have no limit,
    but for the time of ``async`` functions that wait.
    """

    def map(
        self,
        function: str | Unbuilt,
        arguments: Sequence[Mapping[str, object]],
        *,
        timeout: float,
        concurrency: int = 1,
        whole_batch: bool = False,
    ) -> list[Outcome]:
        """One outcome a call, in order: :meth:`rlcomp.workers.calls.Calls.map`.

        Raises:
            ConfigError: the function cannot be imported, or its object not made.
        """
        del concurrency
        try:
            called = load(*described(function))
        except Exception as error:
            raise unloadable(function, in_one_line(error)) from error

        def reply(text: str) -> str:
            # From JSON, as a worker gets them: a call changes nothing that another sees.
            call = Call(called, json.loads(text), whole_batch=whole_batch, output_limit=sys.maxsize)
            return _awaited(call, timeout) if is_async(called) else call.run()

        return [_tried(reply, json.dumps(each)) for each in arguments]


def _tried(reply: Callable[[str], str], text: str) -> Outcome:
    told = json.loads(reply(text))
    for tries, wait in enumerate(WAITS, 1):
        if told[0] != TEMPORARY:
            return outcome_of(told, tries)
        time.sleep(wait)
        told = json.loads(reply(text))
    return outcome_of(told, len(WAITS) + 1)


def _awaited(call: Call, timeout: float) -> str:
    """In a thread: that of a notebook has an event loop of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call.run_async(timeout)).result()
