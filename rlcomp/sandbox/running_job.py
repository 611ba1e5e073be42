"""Running jobs: one program, or a candidate and its tests in two fork servers."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from rlcomp.sandbox.fork_server import ForkServer
from rlcomp.sandbox.job import CallsJob, CheckJob, Job, StdioJob
from rlcomp.sandbox.outcome import Outcome, calls_outcome, check_outcome, stdio_outcome
from rlcomp.sandbox.running_program import RunningProgram

# Seconds beyond the wall limit after which the fork servers are replaced.
_GRACE = 20.0


class ForkServerPair:
    """Pair of fork servers: one for programs and candidates, the other for tests.

    Args:
        tier: tier of both jails.
    """

    def __init__(self, tier: str) -> None:
        self.servers = []
        try:
            for _ in ("candidates", "tests"):
                self.servers.append(ForkServer(tier))
        except BaseException:
            self.close()
            raise

    def refusal(self) -> str:
        """Wait for both servers; return the reason if one does not start, else ''."""
        return next(filter(None, [server.refusal() for server in self.servers]), "")

    def close(self) -> None:
        """End both fork servers."""
        for server in self.servers:
            server.close()


class RunningJob:
    """Running job.

    Args:
        job: the job.
        worker: the fork servers that run it.
    """

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
        programs, tests = self.worker.servers
        job = self.job
        if not isinstance(job, CheckJob):
            stdin = job.stdin if isinstance(job, StdioJob) else ""
            self.programs.append(RunningProgram(programs, request_of(job), job.limits, stdin))
            return
        with contextlib.ExitStack() as ends:
            request_reader, request_writer = _pipe(ends)
            answer_reader, answer_writer = _pipe(ends)
            request = {"entry_point": job.entry_point}
            candidate = request | {"kind": "candidate", "source": job.candidate_source}
            check = request | {"kind": "tests", "tests": job.test_sources}
            self.programs.append(
                RunningProgram(
                    programs, candidate, job.limits, pipe=(request_reader, answer_writer)
                )
            )
            self.programs.append(
                RunningProgram(tests, check, job.limits, pipe=(answer_reader, request_writer))
            )

    def running_programs(self) -> dict[socket.socket, RunningProgram]:
        """Return the running programs by the sockets on which they report their end."""
        return {each.socket: each for each in self.programs if each.facts is None}

    def handle_end(self, program: RunningProgram) -> bool:
        """Record the end of a program; return whether the job has ended."""
        program.receive()
        candidate = self.programs[0]
        if program is not candidate and candidate.facts is None:
            candidate.stop()  # the tests have ended
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
