"""Environments in worker processes that can be killed; a failure affects its own episode only."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from rlcomp.arguments import Checked, PositiveFloat, PositiveInt, Unbuilt
from rlcomp.episodes.host import EnvironmentFailure, Start
from rlcomp.episodes.remote import to_json
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.workers.executor import CallOutcome, FailedCall
from rlcomp.workers.pool import WorkerPool

_REMOTE = "rlcomp.episodes.remote"


class ProcessHosts(metaclass=Checked):
    """Worker processes for environments, under limits of time, memory and output.

    A :class:`ProcessHost` runs the environments of one kind in them.

    An episode stays in one process. If it hangs, crashes or raises, only this episode is lost: the
    others of its process are replayed in a new one, from their seeds with their actions, and must
    give the same turns. This protects against mistakes, not against malice.

    Args:
        num_workers: number of processes; null: one for each processor.
        timeout: limit of a reset, a step, or a replay of an episode, in seconds.
        memory_gib: address space of each process.
        output_limit: maximum number of characters that a step may print, and that it may return.
    """

    ends_with_run = True

    def __init__(
        self,
        *,
        num_workers: PositiveInt | None = None,
        timeout: PositiveFloat = 10.0,
        memory_gib: PositiveFloat = 4.0,
        output_limit: PositiveInt = 1_000_000,
    ) -> None:
        self.timeout = timeout
        # Each pool has one worker, so that an episode finds its environment again.
        self.pools = [
            WorkerPool(num_workers=1, memory_gib=memory_gib, output_limit=output_limit)
            for _ in range(num_workers or os.cpu_count() or 1)
        ]
        # Numbers of the batches of all hosts: a process holds the episodes of one batch at a time.
        self.batches = count()

    def host(self, environment: object) -> ProcessHost:
        """Return a host of environments of one kind.

        Raises:
            ConfigError: the environment has no description in JSON, or cannot be made.
        """
        return ProcessHost(self, serialise(environment))

    def close(self) -> None:
        """End the processes; a later batch starts new ones."""
        for pool in self.pools:
            pool.close()


def serialise(environment: object) -> list[object]:
    """Return the dotted path and the arguments of a class of environments, as JSON objects.

    Raises:
        ConfigError: the environment is an object instead of a class and its arguments, or the
            arguments are not JSON.
    """
    if not isinstance(environment, Unbuilt):
        raise ConfigError(
            f"environment is {environment!r:.100}, an object of this process: name its class "
            "(environment._target_=...), or set environment_pool=in_process"
        )
    description = [environment.target, to_json(environment.arguments)]
    try:
        json.dumps(description)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"environment ({environment.target}) has an argument that is not JSON ({error}), which "
            "other processes need: change it, or set environment_pool=in_process"
        ) from error
    return description


class ProcessHost:
    """Host of environments of one kind; :meth:`open` makes those of the next batch.

    It keeps the start and the actions of each episode, so that a new process can replay it, and a
    digest of its turns, which the replay must give again.

    Args:
        hosts: the worker processes.
        environment: dotted path and arguments of the environment's class.

    Raises:
        ConfigError: the environment cannot be made, or has no texts that end a turn (``stops``).
    """

    def __init__(self, hosts: ProcessHosts, environment: list[object]) -> None:
        self.hosts = hosts
        self.environment = environment
        (outcome,) = self._call(0, "stops", [{}])
        if isinstance(outcome, FailedCall):
            raise ConfigError(f"environment ({environment[0]}) cannot be made: {outcome.message}")
        assert isinstance(outcome.value, list)
        self.stops = tuple(outcome.value)
        self._reset([])

    def _reset(self, starts: Sequence[Start]) -> None:
        self.batch = next(self.hosts.batches)
        self.starts = [
            {
                "prompt": start.example.prompt,
                "answer": start.example.answer,
                "columns": dict(start.example.columns),
                "seed": start.seed,
            }
            for start in starts
        ]
        self.actions: list[list[str]] = [[] for _ in starts]
        self.digests = [""] * len(starts)
        self.latest_facts: list[Mapping[str, float]] = [{} for _ in starts]

    def open(self, starts: Sequence[Start]) -> list[Turn | EnvironmentFailure]:
        """Make an environment for each episode and reset it."""
        self._reset(starts)
        turns = self._act(range(len(starts)))
        return [turns[episode] for episode in range(len(starts))]

    def step(self, actions: Mapping[int, str]) -> dict[int, Turn | EnvironmentFailure]:
        """Answer the actions of some episodes, by their numbers."""
        for episode, action in actions.items():
            self.actions[episode].append(action)
        return self._act([*actions])

    def fork(self, episode: int) -> int:
        """Add an episode and return its number; the episode is replayed at its first step."""
        self.starts.append(self.starts[episode])
        self.actions.append([*self.actions[episode]])
        self.digests.append(self.digests[episode])
        self.latest_facts.append(self.latest_facts[episode])
        return len(self.starts) - 1

    def _act(self, episodes: Sequence[int]) -> dict[int, Turn | EnvironmentFailure]:
        workers = len(self.hosts.pools)
        shares = [[number for number in episodes if number % workers == n] for n in range(workers)]
        with ThreadPoolExecutor(workers) as threads:
            parts = [
                threads.submit(
                    self._call, worker, "act", [self._call_arguments(number) for number in share]
                )
                for worker, share in enumerate(shares)
                if share
            ]
            outcomes = [outcome for part in parts for outcome in part.result()]
        numbers = [number for share in shares for number in share]
        pairs = zip(numbers, outcomes, strict=True)
        turns = {number: self._turn(number, outcome) for number, outcome in pairs}
        return {number: turns[number] for number in episodes}

    def _call_arguments(self, episode: int) -> dict[str, object]:
        return {
            "batch": self.batch,
            "episode": episode,
            "start": self.starts[episode],
            "actions": self.actions[episode],
            "digest": self.digests[episode],
        }

    def _call(
        self, worker: int, name: str, arguments: Sequence[Mapping[str, object]]
    ) -> list[CallOutcome]:
        whole = [{"environment": self.environment, **each} for each in arguments]
        pool = self.hosts.pools[worker]
        return pool.map(f"{_REMOTE}.{name}", whole, timeout=self.hosts.timeout)

    def _turn(self, episode: int, outcome: CallOutcome) -> Turn | EnvironmentFailure:
        if isinstance(outcome, FailedCall):
            return EnvironmentFailure(outcome.message)
        reply: Any = outcome.value
        self.digests[episode] = reply.pop("digest")
        self.latest_facts[episode] = reply.pop("facts")
        return Turn(**{**reply, "payoffs": tuple(reply["payoffs"])})

    def facts(self) -> list[Mapping[str, float] | EnvironmentFailure]:
        """Return the facts of each environment about its episode, as of the last turn."""
        return [*self.latest_facts]

    def close(self) -> None:
        """Close the environments; a process that hangs is killed."""
        for pool in self.hosts.pools:
            pool.map(f"{_REMOTE}.close_all", [{"batch": self.batch}], timeout=self.hosts.timeout)
