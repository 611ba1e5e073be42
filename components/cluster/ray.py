"""Ray cluster: workers are Ray actors, here or on other machines."""

from __future__ import annotations

import logging
import pickle
import queue
import signal
import sys
from collections import deque
from collections.abc import Mapping
from math import ceil
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from rlcomp.cluster.actor import ActorServer
from rlcomp.cluster.worker import process_settings
from rlcomp.cluster.worker_client import ReplyReader
from rlcomp.errors import ConfigError, require
from rlcomp.interfaces.cluster import (
    AsyncSettings,
    Cluster,
    RolloutReply,
    RolloutRequest,
    WorkerLost,
)


class RayCluster(Cluster):
    """Cluster whose workers are Ray actors; they share weights in Ray's object store.

    The numbers equal those of ``cluster=local``. If an actor dies, a new one gets its request. The
    actors end with the run, and so does Ray if this run started it.

    Args:
        workers: number of actors.
        remote: stages that run on them; null: the collector of each phase.
        schedule: ``fixed``: step ``k`` consumes the rollouts requested in step ``k - staleness``.
            ``free``: workers refill the slots of finished rows and load new weights between
            decode steps; a step consumes the groups that finish first.
        staleness: steps between request and use; null: the delay of ``collector=delayed``, else 1.
            Under ``free``, the number of steps whose rollouts are requested ahead.
        timeout: seconds without a reply after which a worker with a request is restarted.
        restarts: maximum number of restarts in a run.
        free: options of ``schedule: free``.
        address: address of a running Ray (``auto``, ``HOST:6379``); null: start Ray here.
        resources: resources of each actor: ``{num_cpus: 1, num_gpus: 0}``, and custom ones.

    Raises:
        MissingExtra: ray is not installed.
        ConfigError: Ray on this machine has too few resources for the actors.
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
            free=free,
        )
        require("ray", "ray")
        self.address = address
        self.resources = resources
        self._started_ray = False

    def start(
        self, stages: bytes, sizes: list[int], versions: int, free: AsyncSettings | None = None
    ) -> None:
        """Connect to Ray or start it; create the actors."""
        del versions  # Ray itself keeps the weights of pending requests
        import ray

        if not ray.is_initialized():
            self._connect()
        self._published = 0
        self._setup = (list(sys.path), sizes, process_settings(), ray.put(stages), free)
        self.links = [
            _ActorClient(worker, self._setup, self._options()) for worker in range(self.workers)
        ]

    def _connect(self) -> None:
        import ray

        # ray.init replaces the handler of SIGTERM; Ray's handler would end the run within a step,
        # so the run's handlers are put back.
        handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        num_cpus = max(1, ceil(self.workers * self._options().get("num_cpus", 1)))
        local: dict[str, Any] = {"include_dashboard": False, "num_cpus": num_cpus}
        ray.init(
            address=self.address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if self.address else local),
        )
        self._started_ray = True
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if not self.address:
            self._check_resources(ray.cluster_resources())  # type: ignore[no-untyped-call]

    def _check_resources(self, available: Mapping[str, float]) -> None:
        """Refuse actors that need more than this machine has: they would never start.

        Raises:
            ConfigError: a resource is too small; Ray is shut down before.
        """
        for name, per_worker in (self.resources or {}).items():
            limit = available.get(_RESOURCES.get(name, name), 0.0)
            required = self.workers * per_worker
            if required > limit:
                self.close()
                raise ConfigError(
                    f"cluster.resources.{name} is {per_worker:g}, {required:g} for all workers, "
                    f"but Ray on this machine has {limit:g}: lower it, or name another Ray in "
                    "cluster.address"
                )

    def _options(self) -> dict[str, Any]:
        """Return Ray's options of an actor; custom resources have a mapping of their own."""
        resources = self.resources or {}
        options: dict[str, Any] = {key: resources[key] for key in _RESOURCES if key in resources}
        custom = {name: value for name, value in resources.items() if name not in _RESOURCES}
        return {**options, "resources": custom} if custom else options

    def publish(self, weights: list[Tensor]) -> object:
        """Put the weights into the object store; return the handle of this publication."""
        import ray

        empty = torch.empty(0, dtype=torch.uint8)
        flat = torch.cat([empty, *(weight.cpu() for weight in weights)])
        self._published += 1
        return _ObjectStoreWeights(self._published - 1, ray.put(flat.numpy()))

    def ask(self, worker: int, weights: object, request: RolloutRequest | None) -> None:
        """Send a request to an actor."""
        self.links[worker].ask(weights, request)

    def receive(self, worker: int, timeout: float) -> RolloutReply:
        """Return the next reply of an actor."""
        reply: RolloutReply = self.links[worker].receive(timeout)
        return reply

    def poll(self, worker: int, silent: float) -> RolloutReply | None:
        """Return the next reply of an actor without waiting; None if there is none."""
        return self.links[worker].poll(silent, self.timeout)  # type: ignore[no-any-return]

    def restart(self, worker: int) -> None:
        """End an actor and create a new one in its place."""
        self.links[worker].kill()
        self.links[worker] = _ActorClient(worker, self._setup, self._options())

    def close(self) -> None:
        """End the actors, and Ray if this run started it."""
        import ray

        for actor in self.links:
            actor.kill()
        self.links = []
        if self._started_ray and ray.is_initialized():
            ray.shutdown()


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Ray names its resources differently from the options of actors.
_RESOURCES = {"num_cpus": "CPU", "num_gpus": "GPU"}


class _ObjectStoreWeights(NamedTuple):
    """Weights in the object store."""

    number: int
    array: Any


class _ActorClient(ReplyReader):
    """Handle of an actor."""

    def __init__(self, number: int, setup: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        import ray

        path, sizes, settings, stages, free = setup
        defaults: dict[str, Any] = {
            "max_restarts": 0,
            "max_task_retries": 0,
            "concurrency_groups": {"replies": 1},  # a thread that waits for replies
            "num_cpus": 1,
            # One arena for all threads, so that they reuse memory.
            "runtime_env": {"env_vars": {"MALLOC_ARENA_MAX": "1"}},
        }
        actor_class: Any = ray.remote(**defaults | dict(options))
        self._actor: Any = actor_class(ActorServer).remote(path, sizes)
        self._actor.take.remote(settings, stages, free)
        super().__init__(number, _ActorInbox(number, self._actor))

    def ask(self, weights: _ObjectStoreWeights, request: RolloutRequest | None) -> None:
        data = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
        self._actor.ask.remote(weights.number, weights.array, data)

    def kill(self) -> None:
        import ray

        ray.kill(self._actor, no_restart=True)


class _ActorInbox:
    """Queue of an actor's replies; one call in the actor always waits for the next."""

    def __init__(self, number: int, actor: Any) -> None:  # noqa: ANN401
        self._number, self._actor = number, actor
        self._replies: deque[Any] = deque()
        self._call = self._call_next()

    def _call_next(self) -> Any:  # noqa: ANN401
        return self._actor.tell.options(concurrency_group="replies").remote()

    def get(self, *, timeout: float) -> Any:  # noqa: ANN401
        if not self._replies:
            self._replies.extend(pickle.loads(reply) for reply in self._fetch(timeout))
        return self._replies.popleft()

    def get_nowait(self) -> Any:  # noqa: ANN401
        return self.get(timeout=0.0)

    def _fetch(self, timeout: float) -> list[bytes]:
        import ray

        if not ray.wait([self._call], timeout=timeout)[0]:
            raise queue.Empty
        try:
            replies: list[bytes] = ray.get(self._call)
        except ray.exceptions.RayError as error:  # the actor or its node died, or memory ran out
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise WorkerLost(f"worker {self._number} died ({line})") from error
        self._call = self._call_next()
        return replies
