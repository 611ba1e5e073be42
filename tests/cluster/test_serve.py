"""What a free worker's process does with messages: weights that are whole, groups, errors."""

import pickle
from collections import deque

import pytest
import torch

from rlcomp.cluster import serve
from rlcomp.cluster.serve import FAILED, REPLY, Shared
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
    return Shared(ring, torch.tensor(stamps), [1, 2])


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


def test_an_error_is_told_and_ends_the_worker():
    pipe = Pipe([message(0, "bad")], [message(1, "a")])

    serve._serve_free(pipe, Worker(), shared())

    ((kind, body),) = pipe.sent
    assert kind == FAILED
    assert str(pickle.loads(body)) == "set a=1"


def test_a_worker_without_groups_waits():
    worker = Worker()

    assert served(worker, [message(0)], [], [message(1)]) == []
    assert worker.loaded == [FIRST, SECOND]


@pytest.mark.parametrize(("free", "made"), [(None, "Worker"), ("settings", "FreeWorker")])
def test_a_worker_of_the_schedule_begins_with_the_settings_of_the_run(free, made, monkeypatch):
    told = []

    def noted(name):
        return lambda *given: told.append((name, *given)) or name

    for name in ("apply_settings", "Worker", "FreeWorker", "_serve_fixed", "_serve_free"):
        monkeypatch.setattr(serve, name, noted(name))
    pipe = Pipe([("torch", b"stages", "weights", free)])

    serve.serve_messages(pipe)

    given = (b"stages",) if free is None else (b"stages", free)
    kind = "_serve_fixed" if free is None else "_serve_free"
    assert told == [("apply_settings", "torch"), (made, *given), (kind, pipe, made, "weights")]
    assert pipe.sent == [(serve.READY, None)]


def test_stages_that_cannot_be_unpacked_are_told(monkeypatch):
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


def test_stages_that_do_not_come_whole_are_told():
    pipe = Pipe()  # as where the shared memory of the weights cannot be had

    serve.serve_messages(pipe)

    ((kind, body),) = pipe.sent
    assert kind == FAILED
    with pytest.raises(ProcessEnded, match=r"its stages have not come whole \(EOFError: \)"):
        raise pickle.loads(body)
