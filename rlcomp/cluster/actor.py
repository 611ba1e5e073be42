"""Worker in a Ray actor: calls deliver its requests and fetch its replies; a thread answers."""

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
from rlcomp.errors import ProcessEnded, refuse_exit
from rlcomp.interfaces.cluster import AsyncSettings


class Handed:
    """Weights handed to an actor, by the number of their publication.

    Args:
        sizes: bytes of each storage.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.arrays: dict[int, npt.NDArray[np.uint8]] = {}

    def load(self, worker: Worker, number: int) -> bool:
        """Let a worker load a publication, which is complete; drop older ones."""
        whole = torch.from_numpy(self.arrays[number].copy())  # Ray's own array cannot be written to
        worker.load(torch.split(whole, self.sizes))
        for older in [each for each in list(self.arrays) if each < number]:
            del self.arrays[older]
        return True


class Serving:
    """The object in the actor; its thread uses it as the connection with the run.

    Calls of :meth:`take` and :meth:`ask` come in order; one call of :meth:`tell` may wait at the
    same time.

    Args:
        path: the run's search path of modules.
        sizes: bytes of each storage of weights.
    """

    def __init__(self, path: Sequence[str], sizes: Sequence[int]) -> None:
        sys.path[:] = [*path, *(own for own in sys.path if own not in path)]
        self.weights = Handed(sizes)
        self._inbox: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._outbox: SimpleQueue[bytes] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def take(self, settings: Mapping[str, Any], stages: bytes, free: AsyncSettings | None) -> None:
        """Take the stages and their settings."""
        self._inbox.put((settings, stages, self.weights, free))

    def ask(self, number: int, weights: npt.NDArray[np.uint8], request: bytes) -> None:
        """Take weights, and a request for them."""
        self.weights.arrays[number] = weights  # there before its message is
        self._inbox.put((number, request))

    def tell(self) -> list[bytes]:
        """Return the messages since the last call; wait if there are none."""
        messages = [self._outbox.get()]
        while not self._outbox.empty():
            messages.append(self._outbox.get())
        return messages

    def _serve(self) -> None:
        try:
            with refuse_exit("a stage on a worker", ProcessEnded):  # a thread would just be gone
                serve_messages(self)
        except Exception as error:  # the actor survives the thread, and would not report the error
            self.send_bytes(pickle.dumps((FAILED, failure(error))))

    def poll(self) -> bool:
        """Return whether there is a message."""
        return not self._inbox.empty()

    def recv(self) -> tuple[Any, ...]:
        """Wait for the next message, and return it."""
        return self._inbox.get()

    def send_bytes(self, buf: bytes) -> None:
        """Store a message for the caller that fetches it."""
        self._outbox.put(buf)
