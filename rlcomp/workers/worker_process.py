"""Handle of a worker process: start it, send orders, read replies, kill it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rlcomp.workers.executor import Reply, read_reply

_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from rlcomp.workers.worker_loop import main
main(*map(int, sys.argv[2:]))
"""
# Time limit in seconds for sending an order.
_SEND_SECONDS = 10.0
_CHUNK_BYTES = 2**16
# Niceness of a stuck worker, which then gets a tenth of the processor beside another worker.
_NICE = 10


class WorkerProcess:
    """Worker process in its own session.

    The processes that its calls start are in that session too and are killed with it. It is a plain
    child process: a fork server would save 10 ms of 30, but would run the user's script once more
    in each worker.

    Args:
        memory_limit: limit of the address space, in bytes.
        output_limit: maximum number of characters that a call prints or returns.

    Attributes:
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
            # A fixed hash seed gives every worker the same order of sets of texts. Each worker
            # computes in one thread.
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

        A call may write into the channel. So lines after one that is no reply are ignored.
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

    def has_ended(self) -> bool:
        """Return whether the killed worker has ended, and reap it if so."""
        return self.process.poll() is not None

    def wait(self) -> int:
        """Wait for the end of the worker and return its exit code.

        A negative code is the number of the signal that killed it, negated.
        """
        return self.process.wait()
