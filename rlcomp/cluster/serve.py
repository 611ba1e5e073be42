"""The process of a local worker: reads requests, answers them, ends with the run."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from rlcomp.cluster.worker import Worker, apply_settings, failure

READY, REPLY, FAILED = "ready", "reply", "failed"


def serve(connection: Connection) -> None:
    """Answer what comes until the run is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group: the run answers them
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_run, daemon=True).start()
    try:
        _serve(connection)
    except (EOFError, OSError):  # nobody is there any more
        return


def _serve(connection: Connection) -> None:
    settings, stages, ring, sizes = connection.recv()
    try:
        apply_settings(settings)
        worker = Worker(stages)
    except Exception as error:
        _send(connection, FAILED, failure(error))
        return
    _send(connection, READY, None)
    while True:
        slot, data = connection.recv()
        try:
            worker.load(ring[slot].split(sizes))
            reply = worker.answer(pickle.loads(data))
        except Exception as error:
            _send(connection, FAILED, failure(error))
        else:
            _send(connection, REPLY, reply)


def _send(connection: Connection, kind: str, told: Any) -> None:  # noqa: ANN401
    # Not Connection.send, which would hand every tensor over as a file of its own.
    connection.send_bytes(pickle.dumps((kind, told), protocol=pickle.HIGHEST_PROTOCOL))


def _end_with_the_run() -> None:
    """A run that was killed says nothing, and a rollout may take minutes."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
