"""Workers of a pool: a worker has a process and the calls that the process has received."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlcomp.arguments import Unbuilt
from rlcomp.workers.call_queue import CallQueue, QueuedCall
from rlcomp.workers.executor import Reply, loading_error, read_reply

LOAD_SECONDS = 60.0  # time limit for importing a function or instantiating a class
_GRACE_SECONDS = 0.5  # an async call gets this much more time: its worker cancels it at the limit
# A worker is stuck if its call takes this many times the mean duration of a call. Extra workers
# then take over, so that a few endless loops do not delay other calls.
_STUCK_RATIO = 20.0
# A worker is not stuck before this number of seconds.
_MIN_STUCK_SECONDS = 0.25
# While the mean duration is unknown, a worker is stuck after this share of the time limit of its
# call, at most after this number of seconds.
_STUCK_SHARE, _MAX_STUCK_SECONDS = 1 / 8, 0.5
_SEND_SECONDS = 10.0  # time limit for sending an order
_CHUNK_BYTES = 2**16  # bytes per read from the channel
_NICE = 10  # niceness of a stuck worker: a tenth of the processor beside another worker

# Program of a worker process; its arguments are the import path and the arguments of ``main``.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from rlcomp.workers.worker_loop import main
main(*map(int, sys.argv[2:]))
"""


class WorkerProcess:
    """Worker process in its own session.

    Processes that its calls start are in that session too and are killed with it. It is a plain
    child process: a fork server would save 10 ms of 30, but would run the user's script once more
    in each worker.

    Args:
        memory_limit: limit of the address space, in bytes.
        output_limit: maximum number of characters that a call prints, and of its result.

    Attributes:
        channel: socket for orders and replies.
        lifeline: file descriptor of a pipe that is closed when the trainer ends; the worker then
            ends too (:mod:`rlcomp.workers.worker_loop`).
        has_invalid_output: whether the worker has sent a line that is no reply.
    """

    def __init__(self, memory_limit: int, output_limit: int) -> None:
        self.channel, worker_end = socket.socketpair()
        lifeline_end, self.lifeline = os.pipe()
        passed_files = (worker_end.fileno(), lifeline_end)
        numbers = (*passed_files, memory_limit, output_limit)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path), *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=passed_files,
            start_new_session=True,
            # Defaults, which the trainer's environment overrides. A fixed hash seed gives every
            # worker the same order of sets of texts. Each worker computes in one thread.
            env={"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", **os.environ},
        )
        worker_end.close()
        os.close(lifeline_end)
        self.max_line_bytes = output_limit + _CHUNK_BYTES
        self.has_invalid_output = False
        self.received = b""

    def send(self, order: Mapping[str, object]) -> None:
        """Send an order.

        Raises:
            OSError: the worker has ended or does not read the order.
        """
        self.channel.settimeout(_SEND_SECONDS)
        self.channel.sendall(json.dumps(order).encode() + b"\n")
        self.channel.setblocking(False)

    def read_replies(self) -> tuple[list[Reply], bool]:
        """Return the replies since the last call of this method, and whether more can come.

        A line that is no reply was written by a call: it and the lines after it are ignored, and no
        more replies can come. The same holds for a line longer than ``max_line_bytes``.
        """
        alive = not self.has_exited()  # check first: replies sent before the end are read below
        with contextlib.suppress(BlockingIOError):
            while len(self.received) <= self.max_line_bytes:
                data = self._read()
                self.received += data
                if not data:
                    alive = False
                    break
        *lines, self.received = self.received.split(b"\n")
        if len(self.received) > self.max_line_bytes:
            alive = False
        replies: list[Reply] = []
        for line in lines:
            reply = read_reply(line)
            if reply is None:
                self.has_invalid_output = True
                return replies, False
            replies.append(reply)
        return replies, alive

    def _read(self) -> bytes:
        try:
            return self.channel.recv(_CHUNK_BYTES)
        except ConnectionResetError:
            return b""

    def has_exited(self) -> bool:
        """Return whether the worker has exited; a process that it forked may still run."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self.process.pid, options) is not None
        except ChildProcessError:  # other code in this process has waited for it
            return True

    def lower_priority(self) -> None:
        """Lower the priority of the worker and of the processes that it started."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self.process.pid, _NICE)
            # Linux may schedule a session as one group with a priority of its own.
            Path(f"/proc/{self.process.pid}/autogroup").write_text(str(_NICE))

    def kill(self) -> None:
        """Kill the worker and all processes that it started, without waiting for their end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.channel.close()
        os.close(self.lifeline)

    def reap(self) -> bool:
        """Reap the killed worker if it has exited; return whether it has."""
        return self.process.poll() is not None

    def wait(self) -> int:
        """Wait for the end of the worker; return its exit code, ``-n`` after signal ``n``."""
        return self.process.wait()


class PoolWorker:
    """Worker process and its unfinished calls.

    Takes the arguments of :class:`WorkerProcess`.

    Attributes:
        calls: the calls that were sent and have no outcome; the first one is running, or all are
            if they are concurrent.
        loaded_functions: functions that the worker has loaded.
        loading: the function that the worker is loading; empty if it is running a call.
        is_replaced: whether the worker will be ended after its running call.
        call_start: start of the running call or of loading, on the clock of ``time.monotonic``.
        deadline: time at which the pool kills the worker, on the same clock.
    """

    def __init__(self, memory_limit: int, output_limit: int) -> None:
        self.process = WorkerProcess(memory_limit, output_limit)
        self.loaded_functions: set[str] = set()
        self.calls: list[QueuedCall] = []
        self.is_replaced = False
        self.loading = ""
        self.call_start = self.deadline = 0.0

    def send_calls(self, order: Mapping[str, object], calls: list[QueuedCall]) -> None:
        """Send calls to the worker; all get the time limit of the first one."""
        self.calls = calls
        function = str(order["function"])
        self.loading = "" if function in self.loaded_functions else function
        numbered = [(call.number, call.arguments) for call in calls]
        with contextlib.suppress(OSError):  # the worker has ended; reading its replies reports this
            self.process.send({**order, "timeout": calls[0].timeout, "calls": numbered})
        self._start_clock()

    def _start_clock(self) -> None:
        self.call_start = time.monotonic()
        limit = LOAD_SECONDS
        if not self.loading and self.calls:
            limit = self.calls[0].timeout + (_GRACE_SECONDS if self.calls[0].is_concurrent else 0.0)
        self.deadline = self.call_start + limit

    def handle_reply(self, reply: Reply, queue: CallQueue, function: str | Unbuilt) -> None:
        """Record a loaded function or the outcome of a call.

        Raises:
            ConfigError: the worker could not load the function.
        """
        if reply[0] == "unloadable":
            raise loading_error(function, reply[1])
        if reply[0] == "loaded":
            self.loaded_functions.add(self.loading)
            self.loading = ""
            self._start_clock()
            return
        call = next((call for call in self.calls if call.number == reply[0]), None)
        if call is None:
            return  # the call was queued again: another worker makes it
        self.calls.remove(call)
        queue.record_reply(call, reply[1:])
        if not call.is_concurrent:
            self._start_clock()

    def release_waiting_calls(self, queue: CallQueue) -> None:
        """Queue the calls behind the running one again; the pool ends the worker after that call.

        Otherwise the worker would still make the calls behind it. Its priority is lowered if the
        mean duration of a call is known. Concurrent calls are all running, so nothing changes.
        """
        if self.is_replaced or self.calls[0].is_concurrent:
            return
        self.is_replaced = queue.one_per_order = True
        queue.take_back(self.calls[1:])
        self.calls = self.calls[:1]
        # If other calls return in time, the running call is an exception: it gets little of the
        # processor.
        if queue.mean_seconds is not None:
            self.process.lower_priority()

    def is_stuck(self, queue: CallQueue) -> bool:
        """Return whether the running call takes much longer than others."""
        mean_seconds = queue.mean_seconds
        if mean_seconds is None:
            limit = min(_MAX_STUCK_SECONDS, _STUCK_SHARE * self.calls[0].timeout)
        else:
            limit = _STUCK_RATIO * mean_seconds
        seconds = time.monotonic() - self.call_start
        return not self.loading and seconds > max(_MIN_STUCK_SECONDS, limit)


def any_stuck(busy: Sequence[PoolWorker], queue: CallQueue) -> bool:
    """Return whether extra workers should start because a worker is stuck.

    If calls exceed their time limit and none returns, all calls are slow, and extra workers would
    make them slower. Then the result is False.
    """
    if queue.has_overrun and queue.mean_seconds is None:
        return False
    return any(worker.is_stuck(queue) for worker in busy)
