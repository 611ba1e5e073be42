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
# A message that a busy machine takes longer for to hand over: the worker is stuck.
_SEND_SECONDS = 10.0
_READ = 2**16
# Of a worker that is stuck: a tenth of the processor beside one that is not.
_NICE = 10


class WorkerProcess:
    """A worker in a session of its own, so that what its calls start is killed with it.

    A plain child process: a fork server would save 10 ms of 30, but starts the user's own script
    once more in each worker.

    Args:
        memory_limit: bytes of address space.
        output_limit: characters a call may print, or return.

    Attributes:
        garbled: whether something else than a reply came of it.
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
            # Sets of texts in the same order in every worker; one thread each.
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
            OSError: the worker does not take it.
        """
        self.channel.settimeout(_SEND_SECONDS)
        self.channel.sendall(json.dumps(order).encode() + b"\n")
        self.channel.setblocking(False)

    def replies(self) -> tuple[list[Reply], bool]:
        """What has come since the last time, and whether more can come.

        Nothing counts from a line on that is no reply: a call wrote into the channel.
        """
        alive = not self.exited()  # asked first: what it sent before its end is read below
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
        told: list[Reply] = []
        for line in lines:
            reply = read_reply(line)
            if reply is None:
                self.garbled = True
                return told, False
            told.append(reply)
        return told, alive

    def _read(self) -> bytes:
        try:
            return self.channel.recv(_READ)
        except ConnectionResetError:
            return b""

    def exited(self) -> bool:
        """Whether it is gone, though a process that it forked holds the channel open."""
        asked = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self.process.pid, asked) is not None
        except ChildProcessError:  # somebody else in this process has waited for it
            return True

    def lower_priority(self) -> None:
        """Leave the processor to others, together with what it started."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self.process.pid, _NICE)
            # A session may be scheduled as one (Linux): then its own priority counts.
            Path(f"/proc/{self.process.pid}/autogroup").write_text(str(_NICE))

    def kill(self) -> None:
        """Kill it with all that it started. It may take a while until all of them are gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.channel.close()
        os.close(self.lifeline)

    def gone(self) -> bool:
        """Whether it has ended since it was killed; must be asked until then."""
        return self.process.poll() is not None

    def wait(self) -> int:
        """Its exit code, once it has ended; negative: the signal it died of."""
        return self.process.wait()
