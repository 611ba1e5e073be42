"""A worker that reads requests and answers them; the process of a local one ends with its run."""

from __future__ import annotations

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

from rlcomp.cluster.free import FreeWorker
from rlcomp.cluster.worker import Worker, apply_settings, failure
from rlcomp.errors import ProcessEnded
from rlcomp.interfaces.cluster import Reply

READY, REPLY, FAILED = "ready", "reply", "failed"


def serve(connection: Connection) -> None:
    """Answer what comes until the run is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group: the run answers them
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_run, daemon=True).start()
    try:
        serve_messages(connection)
    except (EOFError, OSError):  # nobody is there any more
        return


class Messages(Protocol):
    """What a worker reads and writes: a connection, or what looks like one."""

    def poll(self) -> bool:
        """Whether a message is there."""
        ...

    def recv(self) -> Any:  # noqa: ANN401
        """The next message, waited for."""
        ...

    def send_bytes(self, buf: bytes) -> None:
        """Tell the run."""
        ...


class Published(Protocol):
    """Where a worker finds the weights of a publication."""

    def load(self, worker: Worker, number: int) -> bool:
        """Have a worker take over a publication; whether it was whole."""
        ...


class Shared(NamedTuple):
    """Weights in shared memory.

    Attributes:
        ring: a buffer for each of the last publications, uint8.
        stamps: the number of the publication in each buffer; -1 while it is written.
        sizes: bytes of each storage.
    """

    ring: Tensor
    stamps: Tensor
    sizes: list[int]

    def load(self, worker: Worker, number: int) -> bool:
        """Have a worker take over a publication; whether it was whole.

        Under ``fixed`` it always is. A free worker may come so late that its buffer is being
        written to, or holds a newer one: then a message about that one is on its way.
        """
        slot = number % len(self.ring)
        worker.load(torch.split(self.ring[slot], self.sizes))
        return int(self.stamps[slot]) == number


def serve_messages(connection: Messages) -> None:
    """Answer what comes: first the stages, then requests with the numbers of their weights."""
    try:
        settings, stages, shared, free = connection.recv()
    except Exception as error:  # where the run is gone, nobody is told
        told = f"its stages have not come whole ({type(error).__name__}: {error})"
        _send(connection, FAILED, failure(ProcessEnded(told)))
        return
    try:
        apply_settings(settings)
        worker = Worker(stages) if free is None else FreeWorker(stages, free)
    except Exception as error:
        _send(connection, FAILED, failure(error))
        return
    _send(connection, READY, None)
    serving = _serve_fixed if free is None else _serve_free
    serving(connection, worker, shared)  # type: ignore[arg-type]


def _serve_fixed(connection: Messages, worker: Worker, shared: Published) -> None:
    while True:
        number, data = connection.recv()
        try:
            shared.load(worker, number)
            reply = worker.answer(pickle.loads(data))
        except Exception as error:
            _send(connection, FAILED, failure(error))
        else:
            _send(connection, REPLY, reply)


def _serve_free(connection: Messages, worker: FreeWorker, shared: Published) -> None:
    """Decode; between two turns take what has come: all groups, and the newest weights."""
    newest = loaded = -1  # publications: the last one told of; the one that is decoded with
    while True:
        # Where a publication was not whole, a message about a newer one is on its way.
        told = _come(connection, wait=loaded < 0 or not worker.busy)
        replies: list[Reply] = []
        try:
            for number, data in told:
                newest = number
                if (request := pickle.loads(data)) is not None:
                    worker.take(request)
            if newest != loaded:
                loaded = newest if shared.load(worker, newest) else -1
            if loaded >= 0 and worker.busy:
                replies = worker.turn()
        except Exception as error:
            _send(connection, FAILED, failure(error))
            return
        for reply in replies:
            _send(connection, REPLY, reply)


def _come(connection: Messages, *, wait: bool) -> list[tuple[int, bytes]]:
    """All messages that are there; at least one, where there is nothing else to do."""
    told: list[tuple[int, bytes]] = []
    while connection.poll() or (wait and not told):
        told.append(connection.recv())
    return told


def _send(connection: Messages, kind: str, told: Any) -> None:  # noqa: ANN401
    # Not Connection.send, which would hand every tensor over as a file of its own.
    connection.send_bytes(pickle.dumps((kind, told), protocol=pickle.HIGHEST_PROTOCOL))


def _end_with_the_run() -> None:
    """A run that was killed says nothing, and a rollout may take minutes."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
