"""Clients of workers: they send requests and read replies."""

from __future__ import annotations

import contextlib
import pickle
import queue
import sys
import threading
import types
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any, Protocol

from torch import multiprocessing

from rlcomp.cluster.serve import FAILED, READY, serve
from rlcomp.interfaces.cluster import RolloutReply, WorkerLost

# Seconds to import torch and load the stages, even on a busy machine.
START_SECONDS = 600.0


class Inbox(Protocol):
    """Messages of a worker in their order; both methods raise ``queue.Empty`` if there is none."""

    def get(self, *, timeout: float) -> Any:  # noqa: ANN401
        """Wait for the next message, and return it."""
        ...

    def get_nowait(self) -> Any:  # noqa: ANN401
        """Return the next message."""
        ...


class ReplyReader:
    """Reader of the messages of a worker.

    Args:
        number: index of the worker, for errors.
        inbox: the worker's messages.
    """

    def __init__(self, number: int, inbox: Inbox) -> None:
        self.number = number
        self.inbox = inbox
        self.ready = False
        # Seconds that the worker took to become ready; they do not count as silence.
        self._start_seconds = 0.0

    def receive(self, timeout: float) -> RolloutReply:
        """Wait for the next reply, and return it.

        Raises:
            WorkerLost: the worker has ended, or sends nothing for ``timeout`` seconds
                (``START_SECONDS`` until it is ready).
            Exception: an error of the stages.
        """
        while True:
            seconds = timeout if self.ready else START_SECONDS
            try:
                message = self.inbox.get(timeout=seconds)
            except queue.Empty:
                raise self._silence_error(seconds) from None
            if (reply := self.read_message(message)) is not None:
                return reply

    def poll(self, silent: float, timeout: float) -> RolloutReply | None:
        """Return the next reply without waiting; None if there is none.

        Args:
            silent: seconds since the last request or reply.
            timeout: limit of the seconds without a reply, once the worker is ready.

        Raises:
            WorkerLost: the worker has ended, or has sent nothing for too long.
            Exception: an error of the stages.
        """
        while True:
            try:
                message = self.inbox.get_nowait()
            except queue.Empty:
                seconds = timeout if self.ready else START_SECONDS
                if silent - self._start_seconds > seconds:
                    raise self._silence_error(seconds) from None
                return None
            reply = self.read_message(message)
            self._start_seconds = silent if reply is None else 0.0
            if reply is not None:
                return reply

    def read_message(self, message: Any) -> RolloutReply | None:  # noqa: ANN401
        """Return the reply in a message, None if the worker is ready; raise its error."""
        kind, body = message
        if kind == FAILED:
            raise pickle.loads(body)
        if kind == READY:
            self.ready = True
            return None
        reply: RolloutReply = body
        return reply

    def _silence_error(self, seconds: float) -> WorkerLost:
        return WorkerLost(f"worker {self.number} has sent nothing for {seconds:g} s")


_CLOSED = object()


class WorkerClient(ReplyReader):
    """Client that starts a worker process.

    Threads send and receive, so that neither can block the run.
    """

    def __init__(self, number: int) -> None:
        self._arrived: queue.SimpleQueue[object] = queue.SimpleQueue()
        super().__init__(number, self._arrived)
        context = multiprocessing.get_context("spawn")
        self._connection, worker_end = context.Pipe()
        self.process = context.Process(target=serve, args=(worker_end,), daemon=True)
        with _without_main():
            self.process.start()
        # At exit, multiprocessing sends SIGTERM, which workers ignore, and waits for them. Before
        # that it calls this finalizer, which kills the worker.
        self._end = Finalize(self, _kill, args=(self.process,), exitpriority=10)
        worker_end.close()
        self._outbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        threading.Thread(target=self._send, daemon=True).start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, message: object) -> None:
        """Queue a message; return at once."""
        self._outbox.put(message)

    def read_message(self, message: Any) -> RolloutReply | None:  # noqa: ANN401
        """Return the reply in a message, None if the worker is ready; raise its error."""
        if message is _CLOSED:
            self.process.join(1.0)
            raise WorkerLost(f"worker {self.number} died (exit code {self.process.exitcode})")
        return super().read_message(message)

    def close(self) -> None:
        """Kill the process, even in the middle of its work."""
        self._outbox.put(_CLOSED)
        self._end()
        self._reader.join(1.0)  # it has read all messages when the connection is closed
        self._connection.close()

    def _send(self) -> None:
        with contextlib.suppress(OSError):
            while (message := self._outbox.get()) is not _CLOSED:
                self._connection.send(message)

    def _read(self) -> None:
        try:
            while True:
                self._arrived.put(pickle.loads(self._connection.recv_bytes()))
        except (EOFError, OSError):
            self._arrived.put(_CLOSED)


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join()


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keep a new process from running the user's script once more.

    The stages contain definitions of the script by value.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
