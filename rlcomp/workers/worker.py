"""Worker process: reads orders, calls, answers one by one. Standard library only, no torch.

An order is a line of JSON: ``function`` (path, arguments of its class or null), ``timeout``,
``whole_batch`` and ``calls`` (number and arguments of each). For a new function the worker first
sends ``["loaded"]`` or ``["unloadable", why]``, then for each call ``[number, kind, value or
message, seconds, metrics]``.
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
from typing import Any

from rlcomp.errors import in_one_line
from rlcomp.workers.call import Call, OutputLimit, is_async, load


class CountedOutput(io.TextIOBase):
    """Standard output of a call: characters are only counted, and too many are an error."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.written = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Count the characters of a text.

        Raises:
            OutputLimit: more than the limit since the call began.
        """
        self.written += len(text)
        if self.written > self.limit:
            raise OutputLimit(f"printed more than {self.limit} characters")
        return len(text)


class Worker:
    """Caller of functions, until its channel is closed.

    Args:
        channel: to the pool.
        output_limit: characters that a call may print, and of its result.
    """

    def __init__(self, channel: socket.socket, output_limit: int) -> None:
        self.channel = channel
        self.output = CountedOutput(output_limit)
        self.own = os.getpid()
        self.loaded: dict[str, Any] = {}

    def serve(self) -> None:
        """Handle orders."""
        sys.stdout = sys.stderr = self.output
        with self.channel.makefile("rb") as lines:
            for line in lines:
                order = json.loads(line)
                function = self._function(order["function"])
                if function is None:
                    continue
                if is_async(function):
                    asyncio.run(self._together(function, order))
                else:
                    self._one_by_one(function, order)

    def _function(self, wanted: list[Any]) -> Any:  # noqa: ANN401
        key = json.dumps(wanted)
        if key not in self.loaded:
            try:
                self.loaded[key] = load(*wanted)
            except BaseException as error:
                self._send(json.dumps(["unloadable", in_one_line(error)]))
                return None
            self._send('["loaded"]')
        return self.loaded[key]

    def _one_by_one(self, function: Any, order: dict[str, Any]) -> None:  # noqa: ANN401
        for number, arguments in order["calls"]:
            self.output.written = 0
            _limit_cpu(order["timeout"])
            call = self._call(function, arguments, order)
            self._reply(number, call.run())

    async def _together(self, function: Any, order: dict[str, Any]) -> None:  # noqa: ANN401
        async def one(number: int, arguments: dict[str, Any]) -> None:
            call = self._call(function, arguments, order)
            self._reply(number, await call.run_async(order["timeout"]))

        self.output.written = 0
        _limit_cpu(order["timeout"])
        await asyncio.gather(*(one(*each) for each in order["calls"]))

    def _call(self, function: Any, arguments: dict[str, Any], order: dict[str, Any]) -> Call:  # noqa: ANN401
        limit = self.output.limit
        return Call(function, arguments, whole_batch=order["whole_batch"], output_limit=limit)

    def _reply(self, number: int, text: str) -> None:
        if os.getpid() != self.own:
            os._exit(0)  # a copy of the process that the call forked
        self._send(f"[{number}, {text[1:]}")

    def _send(self, text: str) -> None:
        self.channel.sendall(text.encode() + b"\n")


def _limit_cpu(timeout: float) -> None:
    """Limit the processor time of this call, in case the worker is an orphan that stays alive."""
    soft = math.ceil(time.process_time() + timeout) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard < 0 else min(value, hard), hard))


def _end_with(lifeline: int) -> None:
    """Have the group killed when the other end of a pipe closes: when the trainer is gone.

    By a signal of the kernel (SIGIO, which ends a process): a call that never returns cannot check.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)


def main(channel: int, lifeline: int, memory_limit: int, output_limit: int) -> None:
    """Run a worker; descriptors of the two channels, limits in bytes and characters."""
    _end_with(lifeline)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, memory_limit)
    Worker(socket.socket(fileno=channel), output_limit).serve()
