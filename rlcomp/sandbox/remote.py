"""Runner of programs on a server with SandboxFusion's protocol."""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from rlcomp.errors import ConfigError, RlcompError
from rlcomp.sandbox import fusion
from rlcomp.sandbox.http_post import NoAnswer, address, post
from rlcomp.sandbox.job import CallsJob, CheckJob, Job, StdioJob
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.plain_data import encode
from rlcomp.sandbox.program_runner import ProgramRunner

_GRACE = 30.0  # seconds beyond the wall limit for an answer, because the server queues jobs
_PAUSES = (1.0, 4.0)  # seconds before a job is sent again
_TESTS_REFUSED = (
    "sandbox=remote runs no unit tests: the program under test would share a process with the "
    "tests and could make them pass. Set reward=code_calls or reward=code_stdio, which do not send "
    "expected values to the server, or set sandbox=strict"
)
_MEMORY_REFUSED = (
    "sandbox=remote does not measure memory: set the reward's measure=false, or set sandbox=strict"
)


class RemoteSandbox(ProgramRunner):
    """Runner of untrusted Python on a server, by SandboxFusion's ``POST /run_code``.

    The isolation depends on the server. Expected values are not sent to it: a program gets its
    input or the arguments of its calls, and this process compares the results. The first request is
    made by the first job or by :attr:`tier`.

    Args:
        url: address of the server, ``http://host:port``; ``/run_code`` is added.
        workers: maximum number of jobs at the same time.

    Raises:
        ConfigError: ``url`` is malformed, or ``workers`` is below 1.
    """

    def __init__(self, *, url: str, workers: int = 8) -> None:
        if workers < 1:
            raise ConfigError(f"sandbox.workers={workers}: must be at least 1")
        self.server = address(url)
        self.url = url
        self.workers = workers

    @functools.cached_property
    def tier(self) -> str:
        """The text ``remote``, if the server runs two test programs correctly.

        Raises:
            ConfigError: the server does not run them correctly.
        """
        program = StdioJob("print(input())", "here")
        calls = CallsJob("n + 1", (encode((41,)),), names=("n",))
        try:
            printed, called = self.map([program, calls])
        except RlcompError as error:
            raise ConfigError(str(error)) from error
        if printed.stdout != "here\n" or [call.value for call in called.calls] != [42]:
            reason = printed.message or called.message or f"a program wrote {printed.stdout!r:.80}"
            raise ConfigError(f"{self._name}: it does not run Python 3.10 or later: {reason}")
        return "remote"

    def check(self, kind: type[Job] | None, *, measured: bool) -> None:
        """Refuse unit tests and measurements of memory; check that the server runs programs.

        Raises:
            ConfigError: the jobs need tests or measurements, or the server does not run programs.
        """
        if kind is CheckJob:
            raise ConfigError(_TESTS_REFUSED)
        if measured:
            raise ConfigError(_MEMORY_REFUSED)
        super().check(kind, measured=measured)

    def map(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run many jobs, ``workers`` at a time; equal jobs run once.

        Returns:
            The outcomes, in the order of the jobs.

        Raises:
            ConfigError: one of the jobs is a ``CheckJob``.
            RlcompError: the server refused a job, or gave no valid answer in all attempts.
        """
        distinct = list(dict.fromkeys(jobs))
        with ThreadPoolExecutor(self.workers) as pool:
            outcomes = dict(zip(distinct, pool.map(self._run, distinct), strict=True))
        return [outcomes[job] for job in jobs]

    @property
    def _name(self) -> str:
        return f"sandbox.url={self.url}"

    def _run(self, job: Job) -> Outcome:
        if isinstance(job, CheckJob):
            raise ConfigError(_TESTS_REFUSED)
        try:
            for pause in _PAUSES:
                with contextlib.suppress(NoAnswer):
                    return self._run_once(job)
                time.sleep(pause)
            return self._run_once(job)
        except RlcompError as error:
            prefix = f"it lost a program {len(_PAUSES) + 1} times: "
            message = f"{self._name}: {prefix if isinstance(error, NoAnswer) else ''}{error}"
            raise RlcompError(message) from error

    def _run_once(self, job: StdioJob | CallsJob) -> Outcome:
        nonce = secrets.token_hex(16)
        seconds = job.limits.wall + _GRACE
        max_bytes = fusion.max_answer_bytes(job.limits)
        data = fusion.request_body(job, nonce)
        answer = post(self.server, "/run_code", data, seconds=seconds, max_bytes=max_bytes)
        return fusion.outcome_of(job, nonce, answer)
