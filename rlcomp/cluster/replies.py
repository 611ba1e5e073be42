"""Replies of a worker, as the run reads them."""

from __future__ import annotations

import pickle
import queue
from typing import Any, Protocol

from rlcomp.cluster.serve import FAILED, READY
from rlcomp.interfaces.cluster import Reply, WorkerLost

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


class Replies:
    """Reader of a worker's replies and of its other messages.

    Args:
        number: of the worker, for messages.
        inbox: the worker's messages.
    """

    def __init__(self, number: int, inbox: Inbox) -> None:
        self.number = number
        self.inbox = inbox
        self.ready = False
        self._started = 0.0  # seconds of the current silence that its start took

    def receive(self, timeout: float) -> Reply:
        """Wait for the next reply, and return it.

        Raises:
            WorkerLost: the worker is gone, or sends nothing for ``timeout`` seconds.
            Exception: an error of the stages.
        """
        while True:
            seconds = timeout if self.ready else START_SECONDS
            try:
                message = self.inbox.get(timeout=seconds)
            except queue.Empty:
                raise self._silent(seconds) from None
            if (reply := self.read_out(message)) is not None:
                return reply

    def poll(self, silent: float, timeout: float) -> Reply | None:
        """Return the next reply, if there is one.

        Args:
            silent: seconds since the last reply.
            timeout: limit of these seconds.

        Raises:
            WorkerLost: the worker is gone, or has sent nothing for too long.
            Exception: an error of the stages.
        """
        while True:
            try:
                message = self.inbox.get_nowait()
            except queue.Empty:
                seconds = timeout if self.ready else START_SECONDS
                if silent - self._started > seconds:
                    raise self._silent(seconds) from None
                return None
            reply = self.read_out(message)
            self._started = silent if reply is None else 0.0
            if reply is not None:
                return reply

    def read_out(self, message: Any) -> Reply | None:  # noqa: ANN401
        """Return the reply in a message; None: the worker is ready."""
        kind, body = message
        if kind == FAILED:
            raise pickle.loads(body)
        if kind == READY:
            self.ready = True
            return None
        reply: Reply = body
        return reply

    def _silent(self, seconds: float) -> WorkerLost:
        return WorkerLost(f"worker {self.number} says nothing for {seconds:g} s")
