"""A running job: one program, or a candidate and its tests in two fork servers."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from rlcomp.sandbox.fork_server import ForkServer
from rlcomp.sandbox.job import CallsJob, CheckJob, Job, StdioJob
from rlcomp.sandbox.outcome import Outcome, of_calls, of_check, of_stdio
from rlcomp.sandbox.started import Started

# Seconds beyond the wall limit until the fork servers count as dead.
_GRACE = 20.0


class Worker:
    """Two fork servers: one for programs and candidates, the other for tests."""

    def __init__(self, tier: str) -> None:
        self.servers = []
        try:
            for _ in ("candidates", "tests"):
                self.servers.append(ForkServer(tier))
        except BaseException:
            self.close()
            raise

    def refusal(self) -> str:
        """Return why it cannot start; '' if it has started."""
        return next(filter(None, [server.refusal() for server in self.servers]), "")

    def close(self) -> None:
        """End both fork servers."""
        for server in self.servers:
            server.close()


class Running:
    """A running job.

    Args:
        job: the job.
        worker: the worker that runs it.
    """

    def __init__(self, job: Job, worker: Worker) -> None:
        self.job = job
        self.worker = worker
        self.deadline = time.monotonic() + job.limits.wall + _GRACE
        self.programs: list[Started] = []
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        programs, tests = self.worker.servers
        job = self.job
        if not isinstance(job, CheckJob):
            stdin = job.stdin if isinstance(job, StdioJob) else ""
            self.programs.append(Started(programs, request_of(job), job.limits, stdin))
            return
        with contextlib.ExitStack() as ends:
            request_reader, request_writer = _pipe(ends)
            answer_reader, answer_writer = _pipe(ends)
            request = {"entry_point": job.entry_point}
            candidate = request | {"kind": "candidate", "source": job.candidate_source}
            check = request | {"kind": "tests", "tests": job.test_sources}
            self.programs.append(
                Started(programs, candidate, job.limits, pipe=(request_reader, answer_writer))
            )
            self.programs.append(
                Started(tests, check, job.limits, pipe=(answer_reader, request_writer))
            )

    def waiting(self) -> dict[socket.socket, Started]:
        """Return the running programs by the sockets to wait for."""
        return {each.socket: each for each in self.programs if each.facts is None}

    def done(self, program: Started) -> bool:
        """Take the end of one of its programs; return whether it was the last one."""
        program.receive()
        candidate = self.programs[0]
        if program is not candidate and candidate.facts is None:
            candidate.stop()  # the tests are done
        return not self.waiting()

    def outcome(self) -> Outcome:
        """Return the outcome of the job."""
        job, (first, *rest) = self.job, [program.ended() for program in self.programs]
        if isinstance(job, StdioJob):
            return of_stdio(first, job.limits)
        if isinstance(job, CallsJob):
            return of_calls(first, job.limits, len(job.inputs))
        return of_check(first, *rest, limits=job.limits, asked=len(job.test_sources))

    def close(self) -> None:
        """Close its programs; those that still run are killed."""
        for program in self.programs:
            program.close()


def request_of(job: StdioJob | CallsJob) -> Mapping[str, Any]:
    """Return the request for a job to :mod:`rlcomp.sandbox.program`."""
    if isinstance(job, StdioJob):
        return {"kind": "stdio", "source": job.source}
    named = {"entry_point": job.entry_point, "names": job.names}
    return {"kind": "calls", "source": job.source, "inputs": job.inputs, **named}


def _pipe(ends: contextlib.ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    ends.callback(os.close, reader)
    ends.callback(os.close, writer)
    return reader, writer
