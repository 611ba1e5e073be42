"""Local cluster: worker processes on this machine, weights in shared memory."""

from __future__ import annotations

import os
import pickle

import torch
from torch import Tensor

from rlcomp.cluster.serve import SharedWeights
from rlcomp.cluster.worker import process_settings
from rlcomp.cluster.worker_client import WorkerClient
from rlcomp.errors import ConfigError
from rlcomp.interfaces.cluster import AsyncSettings, Cluster, RolloutReply, RolloutRequest

_SHARED_MEMORY = "/dev/shm"


class LocalCluster(Cluster):
    """Cluster whose workers are processes of this machine (torch.multiprocessing, spawn).

    Weights are copied into a ring of shared buffers, one for each version that a request may still
    need, so that a rollout never reads newer weights. A worker that dies, or is silent for
    ``timeout`` seconds, is restarted. All workers end with the run, even if it fails.

    Args:
        workers: number of processes.
        remote: stages that run on them; null: the collector of each phase.
        schedule: ``fixed``: step ``k`` consumes the rollouts requested in step ``k - staleness``.
            ``free``: workers refill the slots of finished rows and load new weights between
            decode steps; a step consumes the groups that finish first.
        staleness: steps between request and use; null: the delay of ``collector=delayed``, else 1.
            Under ``free``, the number of steps whose rollouts are requested ahead.
        timeout: seconds without a reply after which a worker with a request is restarted.
        restarts: maximum number of restarts in a run.
        free: options of ``schedule: free``.

    Raises:
        ConfigError: there is too little shared memory for the weights.
    """

    def prepare(self) -> None:
        """Start the processes."""
        self.links = [WorkerClient(worker) for worker in range(self.workers)]

    def start(
        self, stages: bytes, sizes: list[int], versions: int, free: AsyncSettings | None = None
    ) -> None:
        """Send the stages to the workers; allocate buffers for ``versions`` publications."""
        if not self.links:
            self.prepare()
        _check_shared_memory(sum(sizes) * versions)
        self._ring = torch.empty(versions, sum(sizes), dtype=torch.uint8)
        self._ring.share_memory_()  # type: ignore[no-untyped-call]
        # Number of the publication in each buffer; -1 before the first and during a write.
        self._stamps = torch.full((versions,), -1)
        self._stamps.share_memory_()  # type: ignore[no-untyped-call]
        self._published = 0
        weights = SharedWeights(self._ring, self._stamps, sizes)
        self._setup = (process_settings(), stages, weights, free)
        for link in self.links:
            link.send(self._setup)

    def publish(self, weights: list[Tensor]) -> int:
        """Copy the weights into the next buffer of the ring; return the publication's number."""
        number = self._published
        slot = number % len(self._ring)
        self._published += 1
        self._stamps[slot] = -1  # the buffer is a mix of old and new weights
        if weights:
            torch.cat([weight.cpu() for weight in weights], out=self._ring[slot])
        self._stamps[slot] = number
        return number

    def ask(self, worker: int, weights: object, request: RolloutRequest | None) -> None:
        """Send a request to a worker."""
        data = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
        self.links[worker].send((weights, data))

    def receive(self, worker: int, timeout: float) -> RolloutReply:
        """Return the next reply of a worker."""
        reply: RolloutReply = self.links[worker].receive(timeout)
        return reply

    def poll(self, worker: int, silent: float) -> RolloutReply | None:
        """Return the next reply of a worker without waiting; None if there is none."""
        return self.links[worker].poll(silent, self.timeout)  # type: ignore[no-any-return]

    def restart(self, worker: int) -> None:
        """End a process and start a new one in its place."""
        self.links[worker].close()
        self.links[worker] = WorkerClient(worker)
        self.links[worker].send(self._setup)

    def close(self) -> None:
        """End all processes."""
        for link in self.links:
            link.close()
        self.links = []


def _check_shared_memory(required: int) -> None:
    """Refuse too little shared memory, which would end the run with a bus error."""
    if not os.path.isdir(_SHARED_MEMORY):
        return
    status = os.statvfs(_SHARED_MEMORY)
    free = status.f_bavail * status.f_frsize
    if required > free:
        raise ConfigError(
            f"cluster: the weights need {required / 1e6:.0f} MB of shared memory, and "
            f"{_SHARED_MEMORY} has {free / 1e6:.0f} MB: give it more (docker run --shm-size), "
            "lower cluster.staleness, or set cluster=ray or cluster=none"
        )
