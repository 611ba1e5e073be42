"""Handle of a program that runs in a fork server."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from rlcomp.errors import RlcompError
from rlcomp.sandbox.fork_server import ForkServer
from rlcomp.sandbox.job import Limits
from rlcomp.sandbox.outcome import ProgramResult


class RunningProgram:
    """Running program; its output goes to files in memory, limited by the kernel.

    Args:
        server: the fork server that runs it.
        request: the request to :mod:`rlcomp.sandbox.program`.
        limits: limits of the program.
        stdin: text of standard input.
        pipe: file descriptors to read and to write, shared by a candidate and its tests.
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
        self.socket, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            payload = json.dumps(request).encode()
            self.files += [_memory_file(payload)]
            self.files += [_memory_file(stdin.encode(errors="replace"))]
            self.files += [_memory_file(b"") for _ in ("stdout", "stderr", "report")]
            self.socket.send(json.dumps(vars(limits)).encode())
            server.send([server_end.fileno(), *self.files, *pipe])
        except BaseException:
            self.close()
            raise
        finally:
            server_end.close()

    def receive(self) -> None:
        """Receive the message of the job's first process, which must be ready.

        Raises:
            RlcompError: the sandbox failed: it lost the program or could not restrict it.
        """
        try:
            message = self.socket.recv(4096)
        except ConnectionResetError:  # the process has not read its job
            message = b""
        if not message:
            raise RlcompError("the first process of a sandboxed job was killed")
        facts = json.loads(message)
        if "error" in facts:
            raise RlcompError(f"the sandbox could not start a program: {facts['error']}")
        self.facts = facts

    def stop(self) -> None:
        """Request the end of the program; the facts about its end are still sent."""
        self.socket.shutdown(socket.SHUT_WR)

    def result(self) -> ProgramResult:
        """Return the facts about the program's end, and its output."""
        assert self.facts is not None
        _, _, *outputs = self.files
        return ProgramResult(self.facts, *(_contents(file, self.limits.output) for file in outputs))

    def close(self) -> None:
        """Close the program's files; this kills a program that still runs."""
        self.socket.close()
        for file in self.files:
            os.close(file)
        self.files = []


def _memory_file(data: bytes) -> int:
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


def _contents(file: int, max_bytes: int) -> bytes:
    return os.pread(file, min(max_bytes, os.fstat(file).st_size), 0)
