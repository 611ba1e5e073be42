"""Pools of outside agents: worker processes, or threads of the trainer's process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from rlcomp.arguments import Checked, PositiveFloat, PositiveInt, Unbuilt
from rlcomp.endpoint.agent import Agent, why_unusable
from rlcomp.errors import ConfigError, in_one_line
from rlcomp.workers.executor import FailedCall
from rlcomp.workers.pool import WorkerPool

# An agent: its dotted path, ``file.py:function``, or the function itself.
Function = str | Callable[..., Any]
_AGENT = "rlcomp.endpoint.agent"
# Additional seconds of a process, to report the end of its agents.
_GRACE = 5.0


class Agents(Protocol):
    """Pool that runs agents (``agent_pool``)."""

    def check(self, function: Function) -> None:
        """Check that a function can be called as an agent.

        Raises:
            ConfigError: the function cannot be imported, or cannot be sent to another process.
        """
        ...

    def run(self, function: Function, calls: Sequence[Mapping[str, object]]) -> list[str]:
        """Run an agent on several examples at once.

        Args:
            function: the agent.
            calls: ``base_url`` and ``example`` of each.

        Returns:
            For each, the reason why it did not report its end; empty if it did.
        """
        ...

    def close(self) -> None:
        """End running agents."""
        ...


class ProcessAgents(metaclass=Checked):
    """Pool of worker processes; many agents in each, in threads or tasks.

    An agent that raises, returns no number or takes too long loses only its own episode. If an
    agent ends its process, the other agents of the process run again, with the same draws.

    No sandbox: it protects against errors of agents, not against malicious code.

    Args:
        num_workers: number of processes; null: one for each processor.
        timeout: limit of an episode in seconds, including waits for the policy.
        memory_gib: limit of the address space of each process.
        output_limit: maximum number of characters that the agents of a process print in a rollout.
    """

    ends_with_run = True

    def __init__(
        self,
        *,
        num_workers: PositiveInt | None = None,
        timeout: PositiveFloat = 120.0,
        memory_gib: PositiveFloat = 8.0,
        output_limit: PositiveInt = 10_000_000,
    ) -> None:
        self.timeout = timeout
        # One pool per worker, so that all agents of a rollout run at the same time.
        self.pools = [
            WorkerPool(num_workers=1, memory_gib=memory_gib, output_limit=output_limit)
            for _ in range(num_workers or os.cpu_count() or 1)
        ]

    def check(self, function: Function) -> None:
        """Check that a function can be called, by importing it in a worker."""
        if not isinstance(function, str):
            raise ConfigError(
                f"player.agent is {function!r:.100}, which other processes cannot import: give its "
                "dotted path or file.py:function, or set agent_pool=in_process"
            )
        (outcome,) = self.pools[0].map(
            f"{_AGENT}.why_unusable", [{"function": function}], timeout=60.0
        )
        reason = outcome.message if isinstance(outcome, FailedCall) else str(outcome.value)
        if reason:
            raise _unusable(function, reason)

    def run(self, function: Function, calls: Sequence[Mapping[str, object]]) -> list[str]:
        """Run an agent on several examples at once."""
        workers = len(self.pools)
        shares = [range(n, len(calls), workers) for n in range(workers)]
        reasons = [""] * len(calls)
        with ThreadPoolExecutor(workers) as threads:
            parts = [
                threads.submit(self._run, pool, function, [calls[n] for n in share])
                for pool, share in zip(self.pools, shares, strict=True)
                if share
            ]
            # Empty shares come last and have no part.
            for share, part in zip(shares, parts, strict=False):
                for number, reason in zip(share, part.result(), strict=True):
                    reasons[number] = reason
        return reasons

    def _run(
        self, pool: WorkerPool, function: Function, calls: Sequence[Mapping[str, object]]
    ) -> list[str]:
        outcomes = pool.map(
            Unbuilt(f"{_AGENT}.Agent", {"function": function}),
            [{**call, "timeout": self.timeout} for call in calls],
            timeout=self.timeout + _GRACE,
            concurrency=max(2, len(calls)),  # above 1: the pool runs a single agent like several
        )
        if any(outcome.value for outcome in outcomes if not isinstance(outcome, FailedCall)):
            pool.close()  # an agent beyond the limit still runs in a thread
        return [each.message if isinstance(each, FailedCall) else "" for each in outcomes]

    def close(self) -> None:
        """End the processes; a later rollout starts new ones."""
        for pool in self.pools:
            pool.close()


class InProcessAgents(metaclass=Checked):
    """Pool of threads in the trainer's process; an agent that ends the process ends the run.

    An agent that takes too long loses its episode, but its thread keeps running.

    Args:
        timeout: limit of an episode in seconds, including waits for the policy.
    """

    def __init__(self, *, timeout: PositiveFloat = 120.0) -> None:
        self.timeout = timeout

    def check(self, function: Function) -> None:
        """Check that a function can be called."""
        reason = why_unusable(function) if isinstance(function, str) else ""
        if reason:
            raise _unusable(function, reason)

    def run(self, function: Function, calls: Sequence[Mapping[str, object]]) -> list[str]:
        """Run an agent on several examples at once."""
        agent = Agent(function)

        async def gather() -> list[Any]:
            runs = [agent(**call, timeout=self.timeout) for call in calls]  # type: ignore[arg-type]
            return await asyncio.gather(*runs, return_exceptions=True)

        outcomes = asyncio.run(gather())
        return [in_one_line(each) if isinstance(each, BaseException) else "" for each in outcomes]

    def close(self) -> None:
        """No-op: threads cannot be ended."""


def _unusable(function: Function, reason: str) -> ConfigError:
    return ConfigError(
        f"player.agent is {function!r:.100}, which cannot be called ({reason}): give the dotted "
        "path of a function agent(base_url, example), or file.py:function"
    )
