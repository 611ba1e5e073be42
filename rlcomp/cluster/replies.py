"""What a worker says, read by its run."""

from __future__ import annotations

import pickle
import queue
from typing import Any, Protocol

from rlcomp.cluster.serve import FAILED, READY
from rlcomp.interfaces.cluster import Reply, WorkerLost

# To import torch and take over the stages, on however busy a machine.
START_SECONDS = 600.0


class Inbox(Protocol):
    """Messages of a worker in their order; both raise ``queue.Empty`` where none is there."""

    def get(self, *, timeout: float) -> Any:  # noqa: ANN401
        """The next one, waited for."""
        ...

    def get_nowait(self) -> Any:  # noqa: ANN401
        """The next one."""
        ...


class Replies:
    """The replies of a worker, with what it says beside them told apart.

    Args:
        number: of the worker, for messages.
        inbox: what it has said.
    """

    def __init__(self, number: int, inbox: Inbox) -> None:
        self.number = number
        self.inbox = inbox
        self.ready = False
        self._started = 0.0  # seconds of the silence of now that its start has taken

    def receive(self, timeout: float) -> Reply:
        """The next reply.

        Raises:
            WorkerLost: the worker is gone, or says nothing for ``timeout`` seconds.
            Exception: what the stages raised.
        """
        while True:
            seconds = timeout if self.ready else START_SECONDS
            try:
                told = self.inbox.get(timeout=seconds)
            except queue.Empty:
                raise self._silent(seconds) from None
            if (reply := self.read_out(told)) is not None:
                return reply

    def poll(self, silent: float, timeout: float) -> Reply | None:
        """The next reply, if one is there.

        Args:
            silent: seconds that a reply is being waited for.
            timeout: the most of them.

        Raises:
            WorkerLost: the worker is gone, or has said nothing for too long.
            Exception: what the stages raised.
        """
        while True:
            try:
                told = self.inbox.get_nowait()
            except queue.Empty:
                seconds = timeout if self.ready else START_SECONDS
                if silent - self._started > seconds:
                    raise self._silent(seconds) from None
                return None
            reply = self.read_out(told)
            self._started = silent if reply is None else 0.0
            if reply is not None:
                return reply

    def read_out(self, told: Any) -> Reply | None:  # noqa: ANN401
        """What a message says; None: the worker is ready."""
        kind, body = told
        if kind == FAILED:
            raise pickle.loads(body)
        if kind == READY:
            self.ready = True
            return None
        reply: Reply = body
        return reply

    def _silent(self, seconds: float) -> WorkerLost:
        return WorkerLost(f"worker {self.number} says nothing for {seconds:g} s")
