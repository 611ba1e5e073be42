"""Main loop of a worker process: read orders, call functions, send replies.

The module imports the standard library, :mod:`rlcomp.errors` and
:mod:`rlcomp.workers.function_call` only, so that a worker starts without torch.

An order is a line of JSON: ``function`` (dotted path, and arguments of the class or null),
``timeout`` (seconds), ``whole_batch`` and ``calls`` (number and arguments of each call). After the
first order for a function the worker sends ``["loaded"]`` or ``["unloadable", reason]``. Then it
sends ``[number, kind, value or message, seconds, metrics]`` for each call. A kind is ``scored`` or
a cause of failure (:mod:`rlcomp.workers.executor`, :data:`rlcomp.workers.function_call.TEMPORARY`).
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import math
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from rlcomp.errors import in_one_line
from rlcomp.workers.function_call import FunctionCall, OutputLimit, is_async, load

Function = Callable[..., Any]


class CountedOutput(io.TextIOBase):
    """Standard output and error of a worker: counts characters and discards them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.written = 0

    def writable(self) -> bool:
        """Return True: the stream accepts texts."""
        return True

    def write(self, text: str) -> int:
        """Count the characters of a text and return their number.

        Raises:
            OutputLimit: the call has printed more characters than the limit.
        """
        self.written += len(text)
        if self.written > self.limit:
            raise OutputLimit(f"printed more than {self.limit} characters")
        return len(text)


class WorkerLoop:
    """Loop that makes the calls of orders until its channel is closed.

    Args:
        channel: socket to the pool.
        output_limit: maximum number of characters that a call prints, and of its result.
    """

    def __init__(self, channel: socket.socket, output_limit: int) -> None:
        self.channel = channel
        self.output = CountedOutput(output_limit)
        self.process_id = os.getpid()
        self.functions: dict[str, Function] = {}

    def serve(self) -> None:
        """Handle orders until the pool closes the channel."""
        sys.stdout = sys.stderr = self.output
        with self.channel.makefile("rb") as lines:
            for line in lines:
                order = json.loads(line)
                function = self._load_function(order["function"])
                if function is None:
                    continue
                if is_async(function):
                    asyncio.run(self._run_concurrently(function, order))
                else:
                    self._run_in_order(function, order)

    def _load_function(self, source: list[Any]) -> Function | None:
        """Return a function, and report its first load; report a failure and return None.

        ``source`` has the dotted path, and the arguments of a class or None.
        """
        key = json.dumps(source)
        if key not in self.functions:
            try:
                self.functions[key] = load(*source)
            except BaseException as error:
                self._send(json.dumps(["unloadable", in_one_line(error)]))
                return None
            self._send('["loaded"]')
        return self.functions[key]

    def _run_in_order(self, function: Function, order: dict[str, Any]) -> None:
        for number, arguments in order["calls"]:
            self.output.written = 0
            _limit_cpu(order["timeout"])
            self._reply(number, self._make_call(function, arguments, order).run())

    async def _run_concurrently(self, function: Function, order: dict[str, Any]) -> None:
        async def run_call(number: int, arguments: dict[str, Any]) -> None:
            call = self._make_call(function, arguments, order)
            self._reply(number, await call.run_async(order["timeout"]))

        # The calls share the count of characters and the limit of processor time.
        self.output.written = 0
        _limit_cpu(order["timeout"])
        await asyncio.gather(*(run_call(*each) for each in order["calls"]))

    def _make_call(
        self, function: Function, arguments: dict[str, Any], order: dict[str, Any]
    ) -> FunctionCall:
        return FunctionCall(
            function,
            arguments,
            whole_batch=order["whole_batch"],
            output_limit=self.output.limit,
        )

    def _reply(self, number: int, text: str) -> None:
        if os.getpid() != self.process_id:
            os._exit(0)  # this process is a fork that the call made
        self._send(f"[{number}, {text[1:]}")

    def _send(self, text: str) -> None:
        self.channel.sendall(text.encode() + b"\n")


def _limit_cpu(timeout: float) -> None:
    """Limit the processor time of a call to its time limit and one to two more seconds.

    So a worker ends even if the pool can no longer kill it.
    """
    soft = math.ceil(time.process_time() + timeout) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


# Sets the soft limit of a resource, at most its hard limit; a negative hard limit is infinite.
def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard < 0 else min(value, hard), hard))


def _die_with_trainer(lifeline: int) -> None:
    """Have the kernel kill this process group when the trainer ends, which closes the pipe.

    The kernel then sends SIGIO, which ends a process. The worker itself cannot check the pipe in a
    call that never returns.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)


def main(channel: int, lifeline: int, memory_limit: int, output_limit: int) -> None:
    """Run a worker until its channel is closed.

    Args:
        channel: file descriptor of the socket to the pool.
        lifeline: file descriptor of a pipe; the trainer holds its other end.
        memory_limit: limit of the address space, in bytes.
        output_limit: maximum number of characters that a call prints, and of its result.
    """
    _die_with_trainer(lifeline)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, memory_limit)
    WorkerLoop(socket.socket(fileno=channel), output_limit).serve()
