"""Client end of a local worker: starts it, sends and receives in threads, ends it."""

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
from typing import Any

from torch import multiprocessing

from rlcomp.cluster.replies import Replies
from rlcomp.cluster.serve import serve
from rlcomp.interfaces.cluster import Reply, WorkerLost

_GONE = object()


class Link(Replies):
    """A worker process. Neither sending nor receiving can block the run: threads do both.

    Args:
        number: of the worker, for messages.
    """

    def __init__(self, number: int) -> None:
        self._arrived: queue.SimpleQueue[object] = queue.SimpleQueue()
        super().__init__(number, self._arrived)
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        with _without_main():
            self.process.start()
        # At interpreter exit, before multiprocessing asks politely and waits: a worker ignores
        # SIGTERM.
        self._end = Finalize(self, _kill, args=(self.process,), exitpriority=10)
        theirs.close()
        self._outbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        threading.Thread(target=self._send, daemon=True).start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, message: object) -> None:
        """Queue a message; return at once."""
        self._outbox.put(message)

    def read_out(self, message: Any) -> Reply | None:  # noqa: ANN401
        """Return the reply in a message; None: the worker is ready."""
        if message is _GONE:
            self.process.join(1.0)
            raise WorkerLost(f"worker {self.number} died (exit code {self.process.exitcode})")
        return super().read_out(message)

    def close(self) -> None:
        """Kill the process, even in the middle of its work."""
        self._outbox.put(_GONE)
        self._end()
        self._reader.join(1.0)  # the queue ends here, so no message is cut
        self._connection.close()

    def _send(self) -> None:
        with contextlib.suppress(OSError):
            while (message := self._outbox.get()) is not _GONE:
                self._connection.send(message)

    def _read(self) -> None:
        try:
            while True:
                self._arrived.put(pickle.loads(self._connection.recv_bytes()))
        except (EOFError, OSError):
            self._arrived.put(_GONE)


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join()


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keep a new process from running the user's script once more.

    Definitions of the script are sent with the stages, by value.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
