"""Running jobs: one program, or a candidate and its tests, in fork servers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rlcomp.errors import RlcompError
from rlcomp.sandbox.fork_server import ForkServer, ForkServerPair
from rlcomp.sandbox.job import CallsJob, CheckJob, Job, Limits, StdioJob
from rlcomp.sandbox.outcome import (
    Outcome,
    ProgramResult,
    calls_outcome,
    check_outcome,
    stdio_outcome,
)

# Seconds beyond the wall limit after which the fork servers are replaced.
_GRACE = 20.0


class RunningProgram:
    """Running program; its output goes to files in memory, limited by the kernel.

    Args:
        server: the fork server that runs it.
        request: the request that :mod:`rlcomp.sandbox.program` reads.
        limits: limits of the program.
        stdin: text of standard input.
        pipe: file descriptors to read and to write: one end of each of the two pipes between a
            candidate and its tests.
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
            self.files += [_memory_file(json.dumps(request).encode())]
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
        """Receive the message of the program's init process; block until the message is there.

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
        sizes = [min(self.limits.output, os.fstat(file).st_size) for file in outputs]
        contents = (os.pread(file, size, 0) for file, size in zip(outputs, sizes, strict=True))
        return ProgramResult(self.facts, *contents)

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


class RunningJob:
    """Running job, one program or two, in the fork servers of a worker."""

    def __init__(self, job: Job, worker: ForkServerPair) -> None:
        self.job = job
        self.worker = worker
        self.deadline = time.monotonic() + job.limits.wall + _GRACE
        self.programs: list[RunningProgram] = []
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        program_server, test_server = self.worker.servers
        job = self.job
        if not isinstance(job, CheckJob):
            stdin = job.stdin if isinstance(job, StdioJob) else ""
            self.programs.append(RunningProgram(program_server, request_of(job), job.limits, stdin))
            return
        with contextlib.ExitStack() as ends:
            request_reader, request_writer = _pipe(ends)
            answer_reader, answer_writer = _pipe(ends)
            request = {"entry_point": job.entry_point}
            candidate = request | {"kind": "candidate", "source": job.candidate_source}
            check = request | {"kind": "tests", "tests": job.test_sources}
            self.programs.append(
                RunningProgram(
                    program_server, candidate, job.limits, pipe=(request_reader, answer_writer)
                )
            )
            self.programs.append(
                RunningProgram(test_server, check, job.limits, pipe=(answer_reader, request_writer))
            )

    def running_programs(self) -> dict[socket.socket, RunningProgram]:
        """Return the running programs by the sockets on which they report their end."""
        return {each.socket: each for each in self.programs if each.facts is None}

    def handle_end(self, program: RunningProgram) -> bool:
        """Record the end of a program; return whether the job has ended.

        The end of the tests stops the candidate.

        Raises:
            RlcompError: the sandbox lost the program or could not restrict it.
        """
        program.receive()
        candidate = self.programs[0]
        if program is not candidate and candidate.facts is None:
            candidate.stop()
        return not self.running_programs()

    def outcome(self) -> Outcome:
        """Return the outcome of the job."""
        job, (first, *rest) = self.job, [program.result() for program in self.programs]
        if isinstance(job, StdioJob):
            return stdio_outcome(first, job.limits)
        if isinstance(job, CallsJob):
            return calls_outcome(first, job.limits, len(job.inputs))
        return check_outcome(first, *rest, limits=job.limits, num_tests=len(job.test_sources))

    def close(self) -> None:
        """Close the programs; this kills those that still run."""
        for program in self.programs:
            program.close()


def request_of(job: StdioJob | CallsJob) -> Mapping[str, Any]:
    """Return the request of a job, which :mod:`rlcomp.sandbox.program` reads."""
    if isinstance(job, StdioJob):
        return {"kind": "stdio", "source": job.source}
    return {
        "kind": "calls",
        "source": job.source,
        "inputs": job.inputs,
        "entry_point": job.entry_point,
        "names": job.names,
    }


def _pipe(ends: contextlib.ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    ends.callback(os.close, reader)
    ends.callback(os.close, writer)
    return reader, writer
