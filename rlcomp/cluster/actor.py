"""Worker in a Ray actor: a thread answers requests; calls deliver them and fetch the replies."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rlcomp.cluster.serve import FAILED, serve_messages
from rlcomp.cluster.worker import StageWorker, failure
from rlcomp.errors import ProcessEnded, refuse_exit
from rlcomp.interfaces.cluster import AsyncSettings


class PublishedArrays:
    """Weights that an actor has received, by the number of their publication.

    Args:
        sizes: bytes of each storage of weights.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.arrays: dict[int, npt.NDArray[np.uint8]] = {}

    def load(self, worker: StageWorker, number: int) -> bool:
        """Load a publication into a worker and drop older ones.

        Returns:
            True: Ray sends only complete publications.
        """
        weights = torch.from_numpy(self.arrays[number].copy())  # Ray's array is read-only
        worker.load(torch.split(weights, self.sizes))
        for older in [key for key in self.arrays if key < number]:
            del self.arrays[older]
        return True


class ActorServer:
    """Object of a Ray actor: a thread runs the worker with this object as its connection.

    Calls of :meth:`take` and :meth:`ask` come in order; one call of :meth:`tell` may wait at the
    same time.

    Args:
        path: the run's search path of modules.
        sizes: bytes of each storage of weights.
    """

    def __init__(self, path: Sequence[str], sizes: Sequence[int]) -> None:
        sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
        self.weights = PublishedArrays(sizes)
        self._inbox: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._outbox: SimpleQueue[bytes] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def take(self, settings: Mapping[str, Any], stages: bytes, free: AsyncSettings | None) -> None:
        """Queue the stages and their settings for the worker.

        Args:
            settings: see :func:`rlcomp.cluster.worker.process_settings`.
            stages: see :meth:`rlcomp.cluster.serialization.SerializedStages.data`.
            free: settings of ``schedule=free``; None under ``fixed``.
        """
        self._inbox.put((settings, stages, self.weights, free))

    def ask(self, number: int, weights: npt.NDArray[np.uint8], request: bytes) -> None:
        """Queue a request and its weights for the worker."""
        self.weights.arrays[number] = weights  # stored before the message that names it
        self._inbox.put((number, request))

    def tell(self) -> list[bytes]:
        """Return the worker's messages since the last call; wait for at least one."""
        messages = [self._outbox.get()]
        while not self._outbox.empty():
            messages.append(self._outbox.get())
        return messages

    def _serve(self) -> None:
        try:
            # An exit would end the thread silently.
            with refuse_exit("a stage on a worker", ProcessEnded):
                serve_messages(self)
        except Exception as error:  # the actor survives the thread, and would not report the error
            self.send_bytes(pickle.dumps((FAILED, failure(error))))

    def poll(self) -> bool:
        """Return whether a message is queued."""
        return not self._inbox.empty()

    def recv(self) -> tuple[Any, ...]:
        """Wait for the next message and return it."""
        return self._inbox.get()

    def send_bytes(self, buf: bytes) -> None:
        """Store a message for :meth:`tell`."""
        self._outbox.put(buf)
