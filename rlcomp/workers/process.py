"""The pool's end of a worker process: start, send, receive, kill."""

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

from rlcomp.workers.calls import Reply, read_reply

_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from rlcomp.workers.worker import main
main(*map(int, sys.argv[2:]))
"""
# If sending a message takes longer than this, even on a busy machine, the worker is stuck.
_SEND_SECONDS = 10.0
_READ = 2**16
# Niceness of a stuck worker: a tenth of the processor beside one that is not stuck.
_NICE = 10


class WorkerProcess:
    """Worker in a session of its own, so that processes that its calls start are killed with it.

    A plain child process: a fork server would save 10 ms of 30, but would run the user's own script
    once more in each worker.

    Args:
        memory_limit: bytes of address space.
        output_limit: characters that a call may print, or return.

    Attributes:
        garbled: whether it has sent something other than a reply.
    """

    def __init__(self, memory_limit: int, output_limit: int) -> None:
        self.channel, theirs = socket.socketpair()
        end, self.lifeline = os.pipe()
        passed = (theirs.fileno(), end)
        numbers = (*passed, memory_limit, output_limit)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path), *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=passed,
            start_new_session=True,
            # The same order of sets of texts in every worker; one thread each.
            env={"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", **os.environ},
        )
        theirs.close()
        os.close(end)
        self.longest = output_limit + _READ
        self.garbled = False
        self.received = b""

    def send(self, order: Mapping[str, object]) -> None:
        """Send an order.

        Raises:
            OSError: the worker does not take the order.
        """
        self.channel.settimeout(_SEND_SECONDS)
        self.channel.sendall(json.dumps(order).encode() + b"\n")
        self.channel.setblocking(False)

    def replies(self) -> tuple[list[Reply], bool]:
        """Return the replies since the last call, and whether more can come.

        A line that is no reply makes all later lines invalid: a call wrote into the channel.
        """
        alive = not self.exited()  # checked first: messages sent before its end are read below
        with contextlib.suppress(BlockingIOError):
            while len(self.received) <= self.longest:
                read = self._read()
                self.received += read
                if not read:
                    alive = False
                    break
        *lines, self.received = self.received.split(b"\n")
        if len(self.received) > self.longest:
            alive = False
        replies: list[Reply] = []
        for line in lines:
            reply = read_reply(line)
            if reply is None:
                self.garbled = True
                return replies, False
            replies.append(reply)
        return replies, alive

    def _read(self) -> bytes:
        try:
            return self.channel.recv(_READ)
        except ConnectionResetError:
            return b""

    def exited(self) -> bool:
        """Return whether it has exited, even if a process that it forked holds the channel open."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self.process.pid, options) is not None
        except ChildProcessError:  # other code in this process has waited for it
            return True

    def lower_priority(self) -> None:
        """Lower the priority of the worker and of the processes it started."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self.process.pid, _NICE)
            # A session may be scheduled as one (Linux): then its own priority counts.
            Path(f"/proc/{self.process.pid}/autogroup").write_text(str(_NICE))

    def kill(self) -> None:
        """Kill it with all processes that it started. They may take a while to end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.channel.close()
        os.close(self.lifeline)

    def gone(self) -> bool:
        """Return whether it has ended since it was killed; call this until it has."""
        return self.process.poll() is not None

    def wait(self) -> int:
        """Wait for its end, and return its exit code; negative: the signal that killed it."""
        return self.process.wait()
