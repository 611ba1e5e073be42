"""Remote sandbox: a runner of programs on a server of SandboxFusion's protocol."""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from rlcomp.errors import ConfigError, RlcompError
from rlcomp.sandbox import fusion
from rlcomp.sandbox.http_post import Lost, address, post
from rlcomp.sandbox.job import CallsJob, CheckJob, Job, StdioJob
from rlcomp.sandbox.outcome import Outcome
from rlcomp.sandbox.plain_data import encode
from rlcomp.sandbox.program_runner import ProgramRunner

_GRACE = 30.0  # seconds beyond the wall limit to wait for an answer: the server has a queue
_PAUSES = (1.0, 4.0)  # seconds before a job is sent again
_NO_TESTS = (
    "sandbox=remote runs no unit tests: there the program under test would be in one process with "
    "them, and could pass itself. Take reward=code_calls or reward=code_stdio, whose expected "
    "values stay here, or sandbox=strict"
)
_NO_MEMORY = (
    "sandbox=remote tells no program's memory: set the reward's measure=false, or take "
    "sandbox=strict"
)


class RemoteSandbox(ProgramRunner):
    """Execution of untrusted Python on a server, by SandboxFusion's ``POST /run_code``.

    The isolation depends on the server. Expected values are not sent there: a program gets its
    input, or the arguments of its calls, and its results are compared here. There is no request
    before the first job or :attr:`tier`.

    Args:
        url: address of the server, ``http://host:port``; ``/run_code`` is added.
        workers: most jobs at a time.

    Raises:
        ConfigError: ``url`` is no such address, or ``workers`` is below 1.
    """

    def __init__(self, *, url: str, workers: int = 8) -> None:
        if workers < 1:
            raise ConfigError(f"sandbox.workers={workers}: at least 1")
        self.where = address(url)
        self.url = url
        self.workers = workers

    @functools.cached_property
    def tier(self) -> str:
        """``remote``, after the server has run two programs correctly.

        Raises:
            ConfigError: the server has not run them correctly.
        """
        program = StdioJob("print(input())", "here")
        calls = CallsJob("n + 1", (encode((41,)),), names=("n",))
        try:
            printed, called = self.map([program, calls])
        except RlcompError as error:
            raise ConfigError(str(error)) from error
        if printed.stdout != "here\n" or [call.value for call in called.calls] != [42]:
            why = printed.message or called.message or f"a program wrote {printed.stdout!r:.80}"
            raise ConfigError(f"{self._name}: it does not run Python 3.10 or later: {why}")
        return "remote"

    def check(self, kind: type[Job] | None, *, measured: bool) -> None:
        """Refuse unit tests and measurements of memory.

        Raises:
            ConfigError: the jobs need one of these, or the server does not run programs.
        """
        if kind is CheckJob:
            raise ConfigError(_NO_TESTS)
        if measured:
            raise ConfigError(_NO_MEMORY)
        super().check(kind, measured=measured)

    def map(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run many jobs, ``workers`` at a time; each distinct one once.

        Returns:
            The outcomes, in the order of the jobs.

        Raises:
            ConfigError: one of the jobs is a ``CheckJob``.
            RlcompError: the server refused a job, or lost it each time.
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
            raise ConfigError(_NO_TESTS)
        try:
            for pause in _PAUSES:
                with contextlib.suppress(Lost):
                    return self._run_once(job)
                time.sleep(pause)
            return self._run_once(job)
        except RlcompError as error:
            times = f"it lost a program {len(_PAUSES) + 1} times: "
            message = f"{self._name}: {times if isinstance(error, Lost) else ''}{error}"
            raise RlcompError(message) from error

    def _run_once(self, job: StdioJob | CallsJob) -> Outcome:
        nonce = secrets.token_hex(16)
        seconds = job.limits.wall + _GRACE
        most = fusion.most_bytes(job.limits)
        data = fusion.asked(job, nonce)
        answer = post(self.where, "/run_code", data, seconds=seconds, most=most)
        return fusion.outcome_of(job, nonce, answer)
