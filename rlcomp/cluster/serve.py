"""Request loop of a worker, and the exit of a local worker when its run ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from rlcomp.cluster.async_rollout import AsyncWorker
from rlcomp.cluster.worker import StageWorker, apply_settings, failure
from rlcomp.errors import ProcessEnded
from rlcomp.interfaces.cluster import RolloutReply

READY, REPLY, FAILED = "ready", "reply", "failed"


def serve(connection: Connection) -> None:
    """Answer messages until the run has ended."""
    # The process group gets both signals, and the run handles them.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the run has ended
        serve_messages(connection)


class WorkerConnection(Protocol):
    """Connection of a worker, or an object with the same methods."""

    def poll(self) -> bool:
        """Return whether there is a message."""
        ...

    def recv(self) -> Any:  # noqa: ANN401
        """Wait for the next message, and return it."""
        ...

    def send_bytes(self, buf: bytes) -> None:
        """Send a message to the run."""
        ...


class WeightSource(Protocol):
    """Source of published weights; a publication is one state of all weights, with a number."""

    def load(self, worker: StageWorker, number: int) -> bool:
        """Load a publication into a worker; return whether it was complete."""
        ...


class SharedWeights(NamedTuple):
    """Weights in shared memory.

    Attributes:
        ring: a buffer for each of the last ``K`` publications, uint8, shape ``[K, bytes]``.
            Publication ``n`` is in buffer ``n % K``.
        stamps: number of the publication in each buffer, shape ``[K]``; -1 during a write.
        sizes: bytes of each storage.
    """

    ring: Tensor
    stamps: Tensor
    sizes: list[int]

    def load(self, worker: StageWorker, number: int) -> bool:
        """Load a publication into a worker; return whether it was complete.

        Under ``fixed`` every publication is complete. Under ``free`` the run may have overwritten
        the buffer with a newer publication; its message follows.
        """
        slot = number % len(self.ring)
        worker.load(torch.split(self.ring[slot], self.sizes))
        return int(self.stamps[slot]) == number


def serve_messages(connection: WorkerConnection) -> None:
    """Load the stages from the first message; then answer requests.

    The first message is ``(settings, stages, weights, free)``: process settings, pickled stages, a
    :class:`WeightSource`, and the settings of ``schedule=free`` or None. Any later message is the
    number of a publication and a pickled request, or under ``free`` a pickled None.
    """
    try:
        settings, stages, weights, free = connection.recv()
    except Exception as error:  # if the run has ended, nothing is sent
        text = f"its stages did not arrive complete ({type(error).__name__}: {error})"
        _send(connection, FAILED, failure(ProcessEnded(text)))
        return
    try:
        apply_settings(settings)
        worker = StageWorker(stages) if free is None else AsyncWorker(stages, free)
    except Exception as error:
        _send(connection, FAILED, failure(error))
        return
    _send(connection, READY, None)
    loop = _serve_fixed if free is None else _serve_free
    loop(connection, worker, weights)  # type: ignore[arg-type]


def _serve_fixed(connection: WorkerConnection, worker: StageWorker, weights: WeightSource) -> None:
    while True:
        number, data = connection.recv()
        try:
            weights.load(worker, number)
            reply = worker.answer(pickle.loads(data))
        except Exception as error:
            _send(connection, FAILED, failure(error))
        else:
            _send(connection, REPLY, reply)


def _serve_free(connection: WorkerConnection, worker: AsyncWorker, weights: WeightSource) -> None:
    """Decode; before each turn, queue all new groups and load the newest weights."""
    newest = loaded = -1  # publications: the last one announced, and the one used for decoding
    while True:
        # If a publication was not complete, a message about a newer one follows.
        messages = _receive(connection, wait=loaded < 0 or not worker.busy)
        replies: list[RolloutReply] = []
        try:
            for number, data in messages:
                newest = number
                if (request := pickle.loads(data)) is not None:
                    worker.take(request)
            if newest != loaded:
                loaded = newest if weights.load(worker, newest) else -1
            if loaded >= 0 and worker.busy:
                replies = worker.turn()
        except Exception as error:
            _send(connection, FAILED, failure(error))
            return
        for reply in replies:
            _send(connection, REPLY, reply)


def _receive(connection: WorkerConnection, *, wait: bool) -> list[tuple[int, bytes]]:
    """Return all available messages, or wait for one."""
    messages: list[tuple[int, bytes]] = []
    while connection.poll() or (wait and not messages):
        messages.append(connection.recv())
    return messages


def _send(connection: WorkerConnection, kind: str, body: Any) -> None:  # noqa: ANN401
    # Connection.send would send every tensor as a separate file.
    connection.send_bytes(pickle.dumps((kind, body), protocol=pickle.HIGHEST_PROTOCOL))


def _exit_with_parent() -> None:
    """End this process with the run: a killed run sends no message, and rollouts take long."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
