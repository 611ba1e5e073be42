"""What a free worker's process does with messages: weights that are whole, groups, errors."""

import os
import pickle
import signal
import threading
from collections import deque
from types import SimpleNamespace

import pytest
import torch

from rlcomp.cluster import serve
from rlcomp.cluster.serve import FAILED, REPLY, SharedWeights
from rlcomp.errors import ConfigError, ProcessEnded


class Pipe:
    """Messages by time: each poll that finds none passes a moment; recv passes to the next one."""

    def __init__(self, *moments):
        self.moments, self.sent = deque(deque(each) for each in moments), []

    def poll(self):
        if not self.moments:
            raise EOFError
        if not self.moments[0]:
            self.moments.popleft()
            return False
        return True

    def recv(self):
        while self.moments and not self.moments[0]:
            self.moments.popleft()
        if not self.moments:
            raise EOFError
        return self.moments[0].popleft()

    def send_bytes(self, data):
        self.sent.append(pickle.loads(data))


class Worker:
    """Writes down what it is told; each turn replies with the weights that it has."""

    def __init__(self, turns=99):
        self.loaded, self.taken, self.turns = [], [], turns

    @property
    def busy(self):
        return bool(self.taken) and self.turns > 0

    def load(self, weights):
        self.loaded.append([each.tolist() for each in weights])

    def take(self, request):
        if request == "bad":
            raise ConfigError("set a=1")
        self.taken.append(request)

    def turn(self):
        self.turns -= 1
        return [(self.loaded[-1], list(self.taken))]


def shared(stamps=(0, 1)):
    ring = torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=torch.uint8)
    return SharedWeights(ring, torch.tensor(stamps), [1, 2])


def message(number, request=None):
    return number, pickle.dumps(request)


def served(worker, *moments, stamps=(0, 1)):
    pipe = Pipe(*moments)
    with pytest.raises(EOFError):
        serve._serve_free(pipe, worker, shared(stamps))
    return pipe.sent


FIRST, SECOND = [[1], [2, 3]], [[4], [5, 6]]


def test_all_that_has_come_is_taken_before_a_turn_and_only_the_newest_weights():
    worker = Worker(turns=1)

    sent = served(worker, [message(0), message(0, "a"), message(1, "b")])

    assert worker.loaded == [SECOND]
    assert sent == [(REPLY, (SECOND, ["a", "b"]))]


def test_weights_are_taken_between_turns_and_not_twice():
    worker = Worker(turns=3)

    sent = served(worker, [message(0, "a")], [], [message(1)], [])

    assert worker.loaded == [FIRST, SECOND]
    assert [weights for _, (weights, _) in sent] == [FIRST, FIRST, SECOND]


def test_nothing_is_decoded_with_weights_that_are_being_written():
    worker = Worker(turns=1)

    # The buffer of publication 0 holds another by now: the next message is waited for.
    sent = served(worker, [message(0, "a")], [message(1)], stamps=(-1, 1))

    assert worker.loaded == [FIRST, SECOND]
    assert sent == [(REPLY, (SECOND, ["a"]))]


def test_publications_go_round_the_ring():
    worker = Worker()

    assert shared(stamps=(2, 1)).load(worker, 2)
    assert shared(stamps=(2, 3)).load(worker, 3)
    assert not shared(stamps=(4, 3)).load(worker, 2)
    assert worker.loaded == [FIRST, SECOND, FIRST]


def test_an_error_is_sent_and_ends_the_worker():
    pipe = Pipe([message(0, "bad")], [message(1, "a")])

    serve._serve_free(pipe, Worker(), shared())

    ((kind, body),) = pipe.sent
    assert kind == FAILED
    assert str(pickle.loads(body)) == "set a=1"


def test_a_worker_without_groups_waits():
    worker = Worker()

    assert served(worker, [message(0)], [], [message(1)]) == []
    assert worker.loaded == [FIRST, SECOND]


@pytest.mark.parametrize(("free", "made"), [(None, "StageWorker"), ("settings", "AsyncWorker")])
def test_a_worker_of_the_schedule_begins_with_the_settings_of_the_run(free, made, monkeypatch):
    told = []

    def noted(name):
        return lambda *given: told.append((name, *given)) or name

    for name in ("apply_settings", "StageWorker", "AsyncWorker", "_serve_fixed", "_serve_free"):
        monkeypatch.setattr(serve, name, noted(name))
    pipe = Pipe([("torch", b"stages", "weights", free)])

    serve.serve_messages(pipe)

    given = (b"stages",) if free is None else (b"stages", free)
    kind = "_serve_fixed" if free is None else "_serve_free"
    assert told == [("apply_settings", "torch"), (made, *given), (kind, pipe, made, "weights")]
    assert pipe.sent == [(serve.READY, None)]


def test_stages_that_cannot_be_unpacked_are_an_error(monkeypatch):
    pipe = Pipe([("torch", b"no pickle", "weights", None)])
    monkeypatch.setattr(serve, "apply_settings", lambda settings: None)

    serve.serve_messages(pipe)

    ((kind, _),) = pipe.sent
    assert kind == FAILED


def test_under_fixed_every_request_is_answered_with_its_weights():
    class Answering(Worker):
        def answer(self, request):
            if request == "bad":
                raise ConfigError("set a=1")
            return request, self.loaded[-1]

    pipe = Pipe([message(0, "a"), message(1, "bad"), message(1, "b")])

    with pytest.raises(EOFError):
        serve._serve_fixed(pipe, Answering(), shared())
    (one, failed, other) = pipe.sent
    assert one == (REPLY, ("a", FIRST))
    assert failed[0] == FAILED
    assert other == (REPLY, ("b", SECOND))


@pytest.fixture
def ended(monkeypatch):
    """How a worker's process ends: the signals that it ignores, and its exit code."""
    told = {"signals": {}, "exits": []}
    monkeypatch.setattr(serve.signal, "signal", told["signals"].__setitem__)
    monkeypatch.setattr(serve.os, "_exit", told["exits"].append)
    return told


@pytest.mark.parametrize("error", [EOFError, ConnectionResetError])
def test_a_process_answers_until_its_run_is_gone(error, ended, monkeypatch):
    served, watching = [], threading.Event()

    def answer(connection):
        served.append(connection)
        raise error

    monkeypatch.setattr(serve, "serve_messages", answer)
    monkeypatch.setattr(serve, "_exit_with_parent", watching.set)

    serve.serve("connection")

    assert served == ["connection"]
    assert watching.wait(2)
    # Sent to the whole group: the run answers them.
    ignored = {number for number, how in ended["signals"].items() if how == signal.SIG_IGN}
    assert ignored == {signal.SIGINT, signal.SIGTERM}
    assert ended["exits"] == []


def test_a_mistake_of_ours_is_not_taken_for_the_run_s_end(ended, monkeypatch):
    def answer(connection):
        raise ZeroDivisionError

    monkeypatch.setattr(serve, "serve_messages", answer)
    monkeypatch.setattr(serve, "_exit_with_parent", lambda: None)

    with pytest.raises(ZeroDivisionError):
        serve.serve("connection")


def test_a_process_watches_its_run_in_a_thread(ended, monkeypatch):
    daemons, done = [], threading.Event()

    def watch():
        daemons.append(threading.current_thread().daemon)
        done.set()

    monkeypatch.setattr(serve, "serve_messages", lambda connection: None)
    monkeypatch.setattr(serve, "_exit_with_parent", watch)
    serve.serve("connection")

    assert done.wait(2)
    assert daemons == [True]


def test_a_process_ends_with_its_run(ended, monkeypatch):
    reader, writer = os.pipe()
    run = SimpleNamespace(sentinel=reader)
    monkeypatch.setattr(serve.multiprocessing, "parent_process", lambda: run)
    thread = threading.Thread(target=serve._exit_with_parent, daemon=True)
    thread.start()
    thread.join(0.05)
    assert ended["exits"] == []

    os.close(writer)  # what a sentinel shows when its process is gone
    thread.join(2)

    assert ended["exits"] == [1]
    os.close(reader)


def test_incomplete_stages_are_an_error():
    pipe = Pipe()  # as where the shared memory of the weights cannot be had

    serve.serve_messages(pipe)

    ((kind, body),) = pipe.sent
    assert kind == FAILED
    with pytest.raises(ProcessEnded, match=r"its stages did not arrive complete \(EOFError: \)"):
        raise pickle.loads(body)
