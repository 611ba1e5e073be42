"""Pools that run outside agents: worker processes, or threads of the process itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from rlcomp.arguments import Checked, PositiveFloat, PositiveInt, Unbuilt
from rlcomp.endpoint.agent import Agent, usable
from rlcomp.errors import ConfigError, in_one_line
from rlcomp.workers.executor import FailedCall
from rlcomp.workers.pool import WorkerPool

# An agent: its dotted path, ``file.py:function``, or the function itself.
Function = str | Callable[..., Any]
_AGENT = "rlcomp.endpoint.agent"
# Seconds that a process may go on beyond the time of its agents, to report their end.
_GRACE = 5.0


class Agents(Protocol):
    """Pool that runs agents (``agent_pool``)."""

    def check(self, function: Function) -> None:
        """Check that a function can be called as an agent.

        Raises:
            ConfigError: it cannot be imported, or cannot be sent to another process.
        """
        ...

    def run(self, function: Function, calls: Sequence[Mapping[str, object]]) -> list[str]:
        """Run an agent on several examples at once.

        Args:
            function: the agent.
            calls: ``base_url`` and ``example`` of each.

        Returns:
            For each, why it did not report its end; empty if it did.
        """
        ...

    def close(self) -> None:
        """End the agents that still run."""
        ...


class ProcessAgents(metaclass=Checked):
    """Pool of worker processes that can be killed; many agents in each, in threads or tasks.

    An agent that raises, returns no number or takes too long loses only its own episode. If an
    agent ends its process, the other agents of the process begin anew, with the same draws.

    Protects against mistakes, not against malice: run code that a policy writes in a sandbox.

    Args:
        num_workers: processes; null: one for each processor.
        timeout: limit of an episode in seconds, including the time it waits for the policy.
        memory_gib: limit of the address space of each process.
        output_limit: characters that the agents of a process may print in a rollout.
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
        # A pool of one worker each, so that all agents of a rollout run at the same time.
        self.pools = [
            WorkerPool(num_workers=1, memory_gib=memory_gib, output_limit=output_limit)
            for _ in range(num_workers or os.cpu_count() or 1)
        ]

    def check(self, function: Function) -> None:
        """Check that a function can be called, by importing it in a worker."""
        if not isinstance(function, str):
            raise ConfigError(
                f"player.agent is {function!r:.100}, which no other process has: name it by its "
                "dotted path or as file.py:function, or take agent_pool=in_process"
            )
        (outcome,) = self.pools[0].map(f"{_AGENT}.usable", [{"function": function}], timeout=60.0)
        why = outcome.message if isinstance(outcome, FailedCall) else str(outcome.value)
        if why:
            raise _unusable(function, why)

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
            for share, part in zip(shares, parts, strict=False):
                for number, why in zip(share, part.result(), strict=True):
                    reasons[number] = why
        return reasons

    def _run(
        self, pool: WorkerPool, function: Function, calls: Sequence[Mapping[str, object]]
    ) -> list[str]:
        outcomes = pool.map(
            Unbuilt(f"{_AGENT}.Agent", {"function": function}),
            [{**call, "timeout": self.timeout} for call in calls],
            timeout=self.timeout + _GRACE,
            concurrency=max(2, len(calls)),
        )
        if any(one.value for one in outcomes if not isinstance(one, FailedCall)):
            pool.close()  # an agent that took too long goes on in a thread
        return [one.message if isinstance(one, FailedCall) else "" for one in outcomes]

    def close(self) -> None:
        """End the processes; a later rollout starts new ones."""
        for pool in self.pools:
            pool.close()


class InProcessAgents(metaclass=Checked):
    """Pool of threads in the trainer's own process; an agent that ends the process ends the run.

    An agent that takes too long loses its episode, but its thread goes on.

    Args:
        timeout: limit of an episode in seconds, including the time it waits for the policy.
    """

    def __init__(self, *, timeout: PositiveFloat = 120.0) -> None:
        self.timeout = timeout

    def check(self, function: Function) -> None:
        """Check that a function can be called."""
        why = usable(function) if isinstance(function, str) else ""
        if why:
            raise _unusable(function, why)

    def run(self, function: Function, calls: Sequence[Mapping[str, object]]) -> list[str]:
        """Run an agent on several examples at once."""
        agent = Agent(function)

        async def together() -> list[Any]:
            runs = [agent(**call, timeout=self.timeout) for call in calls]  # type: ignore[arg-type]
            return await asyncio.gather(*runs, return_exceptions=True)

        outcomes = asyncio.run(together())
        return [in_one_line(one) if isinstance(one, BaseException) else "" for one in outcomes]

    def close(self) -> None:
        """No-op: threads cannot be ended."""


def _unusable(function: Function, why: str) -> ConfigError:
    return ConfigError(
        f"player.agent is {function!r:.100}, which cannot be called ({why}): name a function "
        "agent(base_url, example) by its dotted path, or as file.py:function"
    )
