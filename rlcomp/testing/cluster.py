"""A cluster without processes, for tests of code that runs on a cluster."""

from __future__ import annotations

from collections import deque
from typing import Literal

from torch import Tensor

from rlcomp.arguments import NonNegativeInt, PositiveFloat, PositiveInt
from rlcomp.cluster.async_rollout import AsyncWorker
from rlcomp.cluster.worker import StageWorker
from rlcomp.interfaces.cluster import (
    AsyncSettings,
    Cluster,
    PromptRange,
    RolloutReply,
    RolloutRequest,
    WorkerLost,
)


class InProcessCluster(Cluster):
    """Cluster of workers in this process, each with its own copy of the stages.

    A request is computed when its reply is received, so that a test sees if its weights were
    overwritten since.

    Args:
        workers: number of workers.
        remote: names of the stages that run on the workers.
        schedule: ``fixed`` or ``free``, as in :class:`Cluster`.
        staleness: number of steps between the request and the use of a rollout.
        timeout: unused, since no worker hangs.
        restarts: largest number of lost workers that are replaced.
        free: settings under ``free``.
        lost: numbers of the receptions and polls, from 1, at which the worker is lost.

    Attributes:
        asked: worker, number and part of every request.
        restarted: indices of the restarted workers.
    """

    def __init__(
        self,
        *,
        workers: PositiveInt = 1,
        remote: list[str] | None = None,
        schedule: Literal["fixed", "free"] = "fixed",
        staleness: NonNegativeInt | None = None,
        timeout: PositiveFloat = 600.0,
        restarts: NonNegativeInt = 3,
        free: AsyncSettings | None = None,
        lost: list[int] | None = None,
    ) -> None:
        super().__init__(
            workers=workers,
            remote=remote,
            schedule=schedule,
            staleness=staleness,
            timeout=timeout,
            restarts=restarts,
            free=free,
        )
        self.lost = lost or []
        self.asked: list[tuple[int, int, PromptRange]] = []
        self.restarted: list[int] = []
        self._received, self._published = 0, 0
        self._ready: dict[int, deque[RolloutReply]] = {}

    def start(
        self, stages: bytes, sizes: list[int], versions: int, free: AsyncSettings | None = None
    ) -> None:
        """Create the workers."""
        self._free = free
        self._stages = stages
        self._ring: list[list[Tensor]] = [[] for _ in range(versions)]
        self._here = [self._new() for _ in range(self.workers)]

    def _new(self) -> tuple[StageWorker, deque[tuple[int, RolloutRequest]]]:
        free = self._free
        worker = StageWorker(self._stages) if free is None else AsyncWorker(self._stages, free)
        return worker, deque()

    def publish(self, weights: list[Tensor]) -> int:
        """Copy the weights into the next slot of a ring."""
        slot = self._published % len(self._ring)
        self._published += 1
        self._ring[slot] = [storage.clone() for storage in weights]
        return slot

    def ask(self, worker: int, weights: object, request: RolloutRequest | None) -> None:
        """Store a request; under ``free`` the worker loads the weights and begins it at once."""
        assert isinstance(weights, int)
        runner = self._here[worker][0]
        if isinstance(runner, AsyncWorker):
            runner.load(self._ring[weights])
            if request is not None:
                self.asked.append((worker, request.number, request.part))
                runner.take(request)
            return
        assert request is not None
        self.asked.append((worker, request.number, request.part))
        self._here[worker][1].append((weights, request))

    def receive(self, worker: int, timeout: float) -> RolloutReply:
        """Answer the worker's oldest request, and return the reply."""
        self._received += 1
        if self._received in self.lost:
            raise WorkerLost(f"worker {worker} died")
        runner, waiting = self._here[worker]
        slot, request = waiting.popleft()
        runner.load(self._ring[slot])
        return runner.answer(request)

    def poll(self, worker: int, silent: float) -> RolloutReply | None:
        """Return a group of a worker, or None; the worker takes a turn if none is ready.

        ``silent`` is unused, since no worker hangs.
        """
        self._received += 1
        if self._received in self.lost:
            raise WorkerLost(f"worker {worker} died")
        runner = self._here[worker][0]
        assert isinstance(runner, AsyncWorker)
        ready = self._ready.setdefault(worker, deque())
        if not ready and runner.busy:
            ready.extend(runner.turn())
        return ready.popleft() if ready else None

    def restart(self, worker: int) -> None:
        """Replace a worker by a new one without requests."""
        self.restarted.append(worker)
        self._ready.pop(worker, None)
        self._here[worker] = self._new()

    def close(self) -> None:
        """No-op: nothing runs."""
