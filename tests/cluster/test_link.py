"""The run's end of a worker, with a thread in place of its process: what is sent and read."""

import multiprocessing
import os
import pickle
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection

import pytest

from rlcomp.cluster import worker_client as module
from rlcomp.cluster.serve import READY, REPLY
from rlcomp.cluster.worker_client import WorkerClient
from rlcomp.interfaces.cluster import WorkerLost


class Process:
    """Answers each message with itself, in a thread; dies where it is told to."""

    made: list = []

    def __init__(self, target, args, daemon):
        self.target, (self.connection,), self.daemon = target, args, daemon
        self.exitcode, self.killed, self.joined, self.heard = None, 0, 0, []
        self.main = None
        self.made.append(self)

    def start(self):
        self.main = sys.modules["__main__"]
        # The worker's end is closed here, as it is the process's alone.
        self.connection = Connection(os.dup(self.connection.fileno()))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            self.connection.send_bytes(pickle.dumps((READY, None)))
            while (told := self.connection.recv()) != "die":
                self.heard.append(told)
                self.connection.send_bytes(pickle.dumps((REPLY, told)))
        except (EOFError, OSError):
            pass
        if self.exitcode is None:
            self.connection.close()
            time.sleep(0.05)  # how it ended is known a moment later
            self.exitcode = 3

    def kill(self):
        self.killed += 1
        if self.exitcode is not None:
            return
        self.exitcode = -9
        with socket.socket(fileno=os.dup(self.connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def join(self, seconds=None):
        self.joined += 1
        self.thread.join(5 if seconds is None else seconds)


class Context:
    Process = Process
    Pipe = staticmethod(multiprocessing.Pipe)


@pytest.fixture
def link(monkeypatch):
    kinds = []
    monkeypatch.setattr(
        module.multiprocessing, "get_context", lambda kind: kinds.append(kind) or Context
    )
    Process.made.clear()
    link = WorkerClient(2)
    assert kinds == ["spawn"]
    yield link
    link.close()


def test_messages_are_sent_in_order_and_answered(link):
    for number in range(3):
        link.send(number)

    assert [link.receive(5.0) for _ in range(3)] == [0, 1, 2]
    assert link.ready


def test_sending_does_not_wait_for_the_reader(link):
    start = time.monotonic()

    link.send(b"x" * 10_000_000)

    assert time.monotonic() - start < 1
    assert len(link.receive(5.0)) == 10_000_000


def test_a_worker_does_not_run_the_script_of_the_user(link):
    (process,) = Process.made

    assert process.main is not sys.modules["__main__"]
    assert process.main.__name__ == "__main__"
    assert not hasattr(process.main, "__file__")
    assert sys.modules["__main__"] is not None
    assert process.daemon


def test_a_lost_worker_is_reported_with_its_exit_code(link):
    link.send(0)
    link.send("die")

    assert link.receive(5.0) == 0
    with pytest.raises(WorkerLost, match=r"worker 2 died \(exit code 3\)"):
        link.receive(5.0)
    link.send(1)  # changes nothing


def test_a_link_ends_its_process_its_connection_and_its_threads(link):
    link.send(0)
    assert link.receive(5.0) == 0
    before = {*threading.enumerate()}
    (process,) = Process.made

    link.close()

    assert process.killed == 1
    assert process.joined >= 1
    process.thread.join(5)
    until = time.monotonic() + 2
    while time.monotonic() < until and sum(each.is_alive() for each in before) > len(before) - 3:
        time.sleep(0.01)
    # Its own, the one that sends and the one that reads.
    assert sum(not each.is_alive() for each in before) >= 3
    link.close()
    assert process.killed == 1
    assert link._connection.closed


def test_a_connection_is_closed_when_the_end_of_it_was_read(monkeypatch):
    order, killed = [], threading.Event()

    class Connection:
        def recv_bytes(self):
            killed.wait(5)
            time.sleep(0.05)
            order.append("read")
            raise EOFError

        def close(self):
            order.append("closed")

    class Idle:
        def __init__(self, target, args, daemon):
            self.kill, self.exitcode = killed.set, -9

        def start(self):
            pass

        def join(self, seconds=None):
            pass

    kind = type("Context", (), {"Process": Idle, "Pipe": lambda self: (Connection(), Connection())})
    monkeypatch.setattr(module.multiprocessing, "get_context", lambda name: kind())
    link = WorkerClient(0)
    assert order == ["closed"]  # the worker's end, which is the process's alone

    link.close()

    assert order == ["closed", "read", "closed"]


def test_the_threads_of_a_link_keep_no_run_alive(link):
    own = [each for each in threading.enumerate() if "_send" in each.name or "_read" in each.name]

    assert len(own) >= 2
    assert all(each.daemon for each in own)
