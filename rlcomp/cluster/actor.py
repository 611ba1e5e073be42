"""A worker in an actor: calls bring its requests and fetch its replies, a thread answers."""

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
from rlcomp.cluster.worker import Worker, failure
from rlcomp.errors import ProcessEnded, exit_refused
from rlcomp.interfaces.cluster import Free


class Handed:
    """Weights as they were handed to an actor, by the number of their publication.

    Args:
        sizes: bytes of each storage.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.arrays: dict[int, npt.NDArray[np.uint8]] = {}

    def load(self, worker: Worker, number: int) -> bool:
        """Have a worker take over a publication, which is whole; older ones are dropped."""
        whole = torch.from_numpy(self.arrays[number].copy())  # Ray's own cannot be written to
        worker.load(torch.split(whole, self.sizes))
        for older in [each for each in list(self.arrays) if each < number]:
            del self.arrays[older]
        return True


class Serving:
    """What runs in the actor; to its thread it is the connection with the run.

    Calls of :meth:`take` and :meth:`ask` come in their order; one of :meth:`tell` may wait beside
    them.

    Args:
        path: where the run looks for modules.
        sizes: bytes of each storage of weights.
    """

    def __init__(self, path: Sequence[str], sizes: Sequence[int]) -> None:
        sys.path[:] = [*path, *(own for own in sys.path if own not in path)]
        self.weights = Handed(sizes)
        self._inbox: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._outbox: SimpleQueue[bytes] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def take(self, settings: Mapping[str, Any], stages: bytes, free: Free | None) -> None:
        """The stages, and how they are run."""
        self._inbox.put((settings, stages, self.weights, free))

    def ask(self, number: int, weights: npt.NDArray[np.uint8], request: bytes) -> None:
        """Weights, and what is to be made with them."""
        self.weights.arrays[number] = weights  # there before its message is
        self._inbox.put((number, request))

    def tell(self) -> list[bytes]:
        """What has been made since the last call; waits where it is nothing."""
        told = [self._outbox.get()]
        while not self._outbox.empty():
            told.append(self._outbox.get())
        return told

    def _serve(self) -> None:
        try:
            with exit_refused("a stage on a worker", ProcessEnded):  # a thread would just be gone
                serve_messages(self)
        except Exception as error:  # the actor lives on, and would say nothing
            self.send_bytes(pickle.dumps((FAILED, failure(error))))

    def poll(self) -> bool:
        """Whether a message is there."""
        return not self._inbox.empty()

    def recv(self) -> tuple[Any, ...]:
        """The next message, waited for."""
        return self._inbox.get()

    def send_bytes(self, buf: bytes) -> None:
        """Keep a message for who fetches it."""
        self._outbox.put(buf)
