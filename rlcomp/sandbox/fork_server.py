"""The trusted side of a fork server, which starts it, sends it jobs and ends it."""

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

_START, _END = 60.0, 10.0  # seconds, enough for a loaded machine
_CODE = "import sys; sys.path[0] = {!r}; from rlcomp.sandbox.zygote import main; main()"


class ForkServer:
    """A warm interpreter in a jail; each job is a fork of it.

    Args:
        tier: tier of the jail.
    """

    def __init__(self, tier: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = str(Path(__file__).resolve().parents[2])
        interpreter = os.path.realpath(sys.executable)
        command = [interpreter, "-S", "-s", "-B", "-c", _CODE.format(root), tier, str(os.getpid())]
        if tier == "bwrap":
            program = shutil.which("bwrap")
            command.append(os.path.abspath(program) if program else "")
        self.tier = tier
        self.socket = ours
        try:
            self.process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                # Nothing from this process's environment; a fixed seed of hashes.
                env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PATH": "/usr/bin:/bin"},
                start_new_session=True,  # Ctrl-C goes to this process only
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    def refusal(self) -> str:
        """Wait until it is ready; return why it is not, '' if it is."""
        self.socket.settimeout(_START)
        try:
            answer = self.socket.recv(4096)
        except TimeoutError:
            return f"it did not start within {_START:g} s"
        self.socket.settimeout(None)
        if not answer:
            return "it ended while it started"
        return str(json.loads(answer).get("error", ""))

    def send(self, files: Sequence[int]) -> None:
        """Send a job: its socket, its payload, and its files 0, 1, 2, ...

        Raises:
            RlcompError: the server has ended.
        """
        try:
            socket.send_fds(self.socket, [b"j"], files)
        except OSError as error:
            raise RlcompError(f"a fork server of the sandbox has ended: {error}") from error

    def close(self) -> None:
        """End it and all its processes; return when none is left."""
        self.socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END)
            return
        self.process.kill()
        self.process.wait()
