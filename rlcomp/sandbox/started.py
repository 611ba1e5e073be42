"""A running program in a fork server: its files and its end."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from rlcomp.errors import RlcompError
from rlcomp.sandbox.fork_server import ForkServer
from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.outcome import Ended


class Started:
    """A running program; its output goes to files in memory, limited by the kernel.

    Args:
        server: the fork server that runs it.
        request: the request to :mod:`rlcomp.sandbox.program`.
        limits: limits of the program.
        stdin: its input.
        pipe: its ends of the pipe between a candidate and its tests: to read, to write.
    """

    def __init__(
        self,
        server: ForkServer,
        request: Mapping[str, Any],
        limits: Limits,
        stdin: str = "",
        pipe: Sequence[int] = (),
    ) -> None:
        self.server = server
        self.limits = limits
        self.facts: dict[str, Any] | None = None
        self.files: list[int] = []
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            payload = json.dumps(request).encode()
            self.files += [_in_memory(payload)]
            self.files += [_in_memory(stdin.encode(errors="replace"))]
            self.files += [_in_memory(b"") for _ in ("stdout", "stderr", "report")]
            self.socket.send(json.dumps(vars(limits)).encode())
            server.send([theirs.fileno(), *self.files, *pipe])
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()

    def receive(self) -> None:
        """Receive the message of its first process, which must be ready.

        Raises:
            RlcompError: the program was lost or could not be restricted; it is not at fault.
        """
        try:
            answer = self.socket.recv(4096)
        except ConnectionResetError:  # it has not read its job
            answer = b""
        if not answer:
            raise RlcompError("the first process of a sandboxed job was killed")
        facts = json.loads(answer)
        if "error" in facts:
            raise RlcompError(f"the sandbox could not start a program: {facts['error']}")
        self.facts = facts

    def stop(self) -> None:
        """Ask for its end; its facts are still sent."""
        self.socket.shutdown(socket.SHUT_WR)

    def ended(self) -> Ended:
        """Return how it ended, and its output."""
        assert self.facts is not None
        _, _, *written = self.files
        return Ended(self.facts, *(_contents(file, self.limits.output) for file in written))

    def close(self) -> None:
        """Close its files; it is killed if it still runs."""
        self.socket.close()
        for file in self.files:
            os.close(file)
        self.files = []


def _in_memory(data: bytes) -> int:
    file = os.memfd_create("sandbox", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.lseek(file, 0, os.SEEK_SET)
    except BaseException:
        os.close(file)
        raise
    return file


def _contents(file: int, most: int) -> bytes:
    return os.pread(file, min(most, os.fstat(file).st_size), 0)
