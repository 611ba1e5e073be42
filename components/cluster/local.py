"""Local cluster: worker processes on this machine, weights in shared memory."""

from __future__ import annotations

import os
import pickle

import torch
from torch import Tensor

from rlcomp.cluster.link import Link
from rlcomp.cluster.serve import Shared
from rlcomp.cluster.worker import process_settings
from rlcomp.errors import ConfigError
from rlcomp.interfaces.cluster import Cluster, Free, Reply, Request

_SHARED = "/dev/shm"  # where Linux keeps shared memory


class LocalCluster(Cluster):
    """Workers are processes of this machine (torch.multiprocessing, spawn).

    Weights are copied into a ring of shared buffers, one for each version that a request may still
    need: a running rollout never sees newer ones. A worker that dies, or that says nothing for
    ``timeout`` seconds, is started again; all of them end with the run, however it ends.

    Args:
        workers: processes.
        remote: the stages that run on them; null: the collector of each phase.
        schedule: ``fixed``: what step ``k`` consumes was asked for in step ``k - staleness``.
            ``free``: workers refill the seats of rows that have ended, take new weights between
            decode steps, and a step consumes the groups that are done first.
        staleness: steps between request and use; null: as ``collector=delayed`` says, else 1.
            Under ``free`` rollouts of so many steps are asked for ahead.
        timeout: seconds without a word after which a worker that is waited for is ended.
        restarts: how many lost workers of a run are started again.
        free: how, under ``free``.

    Raises:
        ConfigError: there is too little shared memory for the weights.
    """

    def prepare(self) -> None:
        """Start the processes."""
        self.links = [Link(number) for number in range(self.workers)]

    def start(
        self, stages: bytes, sizes: list[int], versions: int, free: Free | None = None
    ) -> None:
        """Hand the stages over; room for the weights of ``versions`` publications is made."""
        if not self.links:
            self.prepare()
        _check_room(sum(sizes) * versions)
        self._ring = torch.empty(versions, sum(sizes), dtype=torch.uint8)
        self._ring.share_memory_()  # type: ignore[no-untyped-call]
        self._stamps = torch.full((versions,), -1)
        self._stamps.share_memory_()  # type: ignore[no-untyped-call]
        self._published = 0
        shared = Shared(self._ring, self._stamps, sizes)
        self._part = (process_settings(), stages, shared, free)
        for link in self.links:
            link.send(self._part)

    def publish(self, weights: list[Tensor]) -> int:
        """Copy the weights into the next buffer of the ring; the number of the publication."""
        number = self._published
        slot = number % len(self._ring)
        self._published += 1
        self._stamps[slot] = -1  # whoever reads it now has some of both
        if weights:
            torch.cat([each.cpu() for each in weights], out=self._ring[slot])
        self._stamps[slot] = number
        return number

    def ask(self, worker: int, weights: object, request: Request | None) -> None:
        """Hand a request to a worker."""
        data = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
        self.links[worker].send((weights, data))

    def receive(self, worker: int, timeout: float) -> Reply:
        """The next reply of a worker."""
        reply: Reply = self.links[worker].receive(timeout)
        return reply

    def poll(self, worker: int, silent: float) -> Reply | None:
        """The next reply of a worker, if one is there."""
        return self.links[worker].poll(silent, self.timeout)  # type: ignore[no-any-return]

    def restart(self, worker: int) -> None:
        """End a process, and start one in its place."""
        self.links[worker].close()
        self.links[worker] = Link(worker)
        self.links[worker].send(self._part)

    def close(self) -> None:
        """End all processes."""
        for link in self.links:
            link.close()
        self.links = []


def _check_room(needed: int) -> None:
    """Memory that is not there would end the run with a bus error when it is written to."""
    if not os.path.isdir(_SHARED):
        return
    there = os.statvfs(_SHARED)
    free = there.f_bavail * there.f_frsize
    if needed > free:
        raise ConfigError(
            f"cluster: the weights need {needed / 1e6:.0f} MB of shared memory, and {_SHARED} has "
            f"{free / 1e6:.0f} MB: give it more (docker run --shm-size), lower cluster.staleness, "
            "or set cluster=ray or cluster=none"
        )
