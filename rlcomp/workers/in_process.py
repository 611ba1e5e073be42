"""Calls in the process itself, without limits; a call that ends the process ends the run."""

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
    """Sequential calls in the trainer's own process, for functions without mistakes.

    An exception makes a call fail as in a worker. Time, memory and output have no limit, except for
    the time of ``async`` functions that wait.
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
        """Return one outcome per call, in order: :meth:`rlcomp.workers.calls.Calls.map`.

        Raises:
            ConfigError: the function cannot be imported, or its object cannot be made.
        """
        del concurrency
        try:
            called = load(*described(function))
        except Exception as error:
            raise unloadable(function, in_one_line(error)) from error

        def reply(text: str) -> str:
            # From JSON, as in a worker: a call cannot change the arguments of another one.
            call = Call(called, json.loads(text), whole_batch=whole_batch, output_limit=sys.maxsize)
            return _awaited(call, timeout) if is_async(called) else call.run()

        return [_tried(reply, json.dumps(each)) for each in arguments]


def _tried(reply: Callable[[str], str], text: str) -> Outcome:
    answer = json.loads(reply(text))
    for tries, wait in enumerate(WAITS, 1):
        if answer[0] != TEMPORARY:
            return outcome_of(answer, tries)
        time.sleep(wait)
        answer = json.loads(reply(text))
    return outcome_of(answer, len(WAITS) + 1)


def _awaited(call: Call, timeout: float) -> str:
    """Await a call in a thread, because the thread of a notebook has an event loop of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call.run_async(timeout)).result()
