"""Handles of fork servers: start them, send them jobs, end them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rlcomp.errors import RlcompError

_START_SECONDS, _END_SECONDS = 60.0, 10.0  # time limits, long enough for a loaded machine
_CODE = "import sys; sys.path[0] = {!r}; from rlcomp.sandbox.fork_server_child import main; main()"


class ForkServer:
    """Handle of an interpreter with preloaded modules, isolated by a tier and forked for each job.

    Args:
        tier: name of the tier (docs/sandbox.md).
    """

    def __init__(self, tier: str) -> None:
        server_socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = str(Path(__file__).resolve().parents[2])
        interpreter = os.path.realpath(sys.executable)
        command = [interpreter, "-S", "-s", "-B", "-c", _CODE.format(root), tier, str(os.getpid())]
        if tier == "bwrap":
            program = shutil.which("bwrap")
            command.append(os.path.abspath(program) if program else "")
        self.tier = tier
        self.socket = server_socket
        try:
            self.process = subprocess.Popen(
                command,
                stdin=child_socket.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                # Pass no variable of this process; fix the seed of hashes.
                env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PATH": "/usr/bin:/bin"},
                start_new_session=True,  # Ctrl-C goes to this process only
            )
        except BaseException:
            server_socket.close()
            raise
        finally:
            child_socket.close()

    def wait_for_start(self) -> str:
        """Wait until the server is ready; return the reason of a failure, else ''."""
        self.socket.settimeout(_START_SECONDS)
        try:
            answer = self.socket.recv(4096)
        except TimeoutError:
            return f"it did not start within {_START_SECONDS:g} s"
        self.socket.settimeout(None)
        if not answer:
            return "it ended during its start"
        return str(json.loads(answer).get("error", ""))

    def send(self, files: Sequence[int]) -> None:
        """Send a job: the file descriptors of its socket, its request, and its files 0, 1, ...

        Raises:
            RlcompError: the server has ended.
        """
        try:
            socket.send_fds(self.socket, [b"j"], files)
        except OSError as error:
            raise RlcompError(f"a fork server of the sandbox has ended: {error}") from error

    def close(self) -> None:
        """End the server and all its processes, and wait for their end."""
        self.socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
            return
        self.process.kill()
        self.process.wait()


class ForkServerPair:
    """Pair of fork servers: one for programs and candidates, the other for tests."""

    def __init__(self, tier: str) -> None:
        self.servers = []
        try:
            for _ in ("candidates", "tests"):
                self.servers.append(ForkServer(tier))
        except BaseException:
            self.close()
            raise

    def wait_for_start(self) -> str:
        """Wait until both servers are ready; return the reason of the first failure, else ''."""
        return next(filter(None, [server.wait_for_start() for server in self.servers]), "")

    def close(self) -> None:
        """End both fork servers."""
        for server in self.servers:
            server.close()


def start_pair(tier: str) -> ForkServerPair:
    """Start a pair of fork servers and return it.

    Raises:
        RlcompError: a fork server does not start.
    """
    pair = ForkServerPair(tier)
    if reason := pair.wait_for_start():
        pair.close()
        raise RlcompError(f"a fork server of the sandbox did not start: {reason}")
    return pair
