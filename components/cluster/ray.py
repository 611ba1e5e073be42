"""Ray cluster: workers are Ray actors, here or on other machines."""

from __future__ import annotations

import logging
import pickle
import signal
import sys
from collections import deque
from collections.abc import Mapping
from math import ceil
from typing import Any, Literal

import torch
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from rlcomp.cluster.worker import Worker, apply_settings, failure, process_settings
from rlcomp.errors import require
from rlcomp.interfaces.cluster import Cluster, Free, Reply, Request, WorkerLost

# To import torch and take over the stages, on however busy a machine.
_START_SECONDS = 600.0


class RayCluster(Cluster):
    """Workers are Ray actors; weights go through Ray's object store, once for all of them.

    The numbers are those of ``cluster=local``. An actor's state is gone when it dies: it is made
    anew, and asked again. Actors and a Ray that was started here end with the run.

    Args:
        workers: actors.
        remote: the stages that run on them; null: the collector of each phase.
        schedule: ``fixed``: what step ``k`` consumes was asked for in step ``k - staleness``.
        staleness: steps between request and use; null: as ``collector=delayed`` says, else 1.
        timeout: seconds without a word after which a worker that is waited for is ended.
        restarts: how many lost workers of a run are started again.
        address: of a running Ray (``auto``, ``HOST:6379``); null: one is started here.
        resources: of each actor: ``{num_cpus: 1, num_gpus: 0}``, and custom ones.

    Raises:
        MissingExtra: ray is not installed.
    """

    def __init__(
        self,
        *,
        workers: PositiveInt = 1,
        remote: list[str] | None = None,
        schedule: Literal["fixed"] = "fixed",
        staleness: NonNegativeInt | None = None,
        timeout: PositiveFloat = 600.0,
        restarts: NonNegativeInt = 3,
        address: str | None = None,
        resources: dict[str, NonNegativeFloat] | None = None,
    ) -> None:
        super().__init__(
            workers=workers,
            remote=remote,
            schedule=schedule,
            staleness=staleness,
            timeout=timeout,
            restarts=restarts,
        )
        require("ray", "ray")
        self.address = address
        self.resources = resources
        self._own = False  # whether Ray was started here

    def start(
        self, stages: bytes, sizes: list[int], versions: int, free: Free | None = None
    ) -> None:
        """Connect, or start a Ray here; make the actors."""
        del versions, free  # an object lives as long as a request holds it
        import ray

        if not ray.is_initialized():
            self._connect()
        self._part = (process_settings(), list(sys.path), ray.put(stages), sizes)
        self.links = [_Actor(n, self._part, self._options()) for n in range(self.workers)]

    def _connect(self) -> None:
        import ray

        # Ray takes SIGTERM for itself: the run would end in the middle of a step.
        handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        here: dict[str, Any] = {"include_dashboard": False}
        here["num_cpus"] = max(1, ceil(self.workers * self._options().get("num_cpus", 1)))
        ray.init(
            address=self.address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if self.address else here),
        )
        self._own = True
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def _options(self) -> dict[str, Any]:
        known, given = ("num_cpus", "num_gpus"), self.resources or {}
        own: dict[str, Any] = {name: given[name] for name in known if name in given}
        custom = {name: value for name, value in given.items() if name not in known}
        return {**own, "resources": custom} if custom else own

    def publish(self, weights: list[Tensor]) -> object:
        """Put the weights into the object store."""
        import ray

        whole = torch.cat([each.cpu() for each in weights]) if weights else torch.empty(0)
        return ray.put(whole.numpy())

    def ask(self, worker: int, weights: object, request: Request | None) -> None:
        """Hand a request to an actor."""
        assert request is not None
        self.links[worker].ask(weights, request)

    def receive(self, worker: int, timeout: float) -> Reply:
        """The next reply of an actor."""
        reply: Reply = self.links[worker].receive(timeout)
        return reply

    def restart(self, worker: int) -> None:
        """End an actor, and make one in its place."""
        self.links[worker].kill()
        self.links[worker] = _Actor(worker, self._part, self._options())

    def close(self) -> None:
        """End the actors, and the Ray that was started here."""
        import ray

        for actor in self.links:
            actor.kill()
        self.links = []
        if self._own and ray.is_initialized():
            ray.shutdown()


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Actor:
    """The run's end of an actor: what it has yet to answer, in order."""

    def __init__(self, number: int, part: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        import ray

        settings, path, stages, sizes = part
        self.number = number
        made: Any = ray.remote(
            max_restarts=0, max_task_retries=0, **{"num_cpus": 1} | dict(options)
        )
        self._actor: Any = made(_Serving).remote(settings, path, sizes)
        self._waiting: deque[Any] = deque([self._actor.take.remote(stages)])
        self._ready = False

    def ask(self, weights: object, request: Request) -> None:
        data = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
        self._waiting.append(self._actor.answer.remote(weights, data))

    def receive(self, timeout: float) -> Reply:
        if not self._ready:
            self._get(_START_SECONDS)
            self._ready = True
        reply: Reply = self._get(timeout)
        return reply

    def _get(self, timeout: float) -> Any:  # noqa: ANN401
        import ray

        try:
            data = ray.get(self._waiting[0], timeout=timeout)
        except ray.exceptions.GetTimeoutError:
            raise WorkerLost(f"worker {self.number} says nothing for {timeout:g} s") from None
        except ray.exceptions.RayActorError as error:
            told = str(error).splitlines()[0]
            raise WorkerLost(f"worker {self.number} died ({told})") from error
        self._waiting.popleft()
        failed, body = pickle.loads(data)
        if failed:
            raise pickle.loads(body)
        return body

    def kill(self) -> None:
        import ray

        ray.kill(self._actor, no_restart=True)


class _Serving:
    """What runs in the actor."""

    def __init__(self, settings: Mapping[str, Any], path: list[str], sizes: list[int]) -> None:
        sys.path[:] = [*path, *(own for own in sys.path if own not in path)]
        self.settings, self.sizes = settings, sizes

    def take(self, stages: bytes) -> bytes:
        """The stages."""

        def made() -> None:
            apply_settings(self.settings)
            self.worker = Worker(stages)

        return _told(made)

    def answer(self, weights: Any, request: bytes) -> bytes:  # noqa: ANN401
        """A rollout. The weights are in shared memory that cannot be written to."""

        def made() -> Reply:
            whole: Tensor = torch.from_numpy(weights.copy())  # Ray's own cannot be written to
            self.worker.load(torch.split(whole, self.sizes))
            return self.worker.answer(pickle.loads(request))

        return _told(made)


def _told(do: Any) -> bytes:  # noqa: ANN401
    try:
        return pickle.dumps((False, do()), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return pickle.dumps((True, failure(error)))
