"""What a worker says, read in order: replies, errors, silence."""

import pickle
import queue

import pytest

from rlcomp.cluster.worker_client import START_SECONDS, ReplyReader
from rlcomp.errors import ConfigError
from rlcomp.interfaces.cluster import WorkerLost

READY, REPLY = ("ready", None), ("reply", "made")


class Inbox(list):
    """Messages that are there; notes how long it is waited for more."""

    def __init__(self, *told):
        super().__init__(told)
        self.waited = []

    def get(self, *, timeout):
        self.waited.append(timeout)
        return self.get_nowait()

    def get_nowait(self):
        if not self:
            raise queue.Empty
        return self.pop(0)


def test_a_poll_returns_at_once():
    replies = ReplyReader(2, Inbox(READY, REPLY, ("reply", "other")))

    assert replies.poll(9e9, 5.0) == "made"
    assert replies.poll(9e9, 5.0) == "other"
    assert replies.poll(5.0, 5.0) is None
    assert replies.inbox.waited == []
    with pytest.raises(WorkerLost, match="worker 2 has sent nothing for 5 s"):
        replies.poll(5.1, 5.0)


def test_a_worker_that_is_not_ready_may_take_longer():
    replies = ReplyReader(2, Inbox())

    assert START_SECONDS == 600.0
    assert replies.poll(600.0, 5.0) is None
    for lost in (lambda: replies.poll(600.1, 5.0), lambda: replies.receive(5.0)):
        with pytest.raises(WorkerLost, match="worker 2 has sent nothing for 600 s"):
            lost()
    assert replies.inbox.waited == [600.0]


def test_a_start_that_takes_longer_than_the_timeout_is_no_silence():
    replies = ReplyReader(2, Inbox(READY))

    assert replies.poll(20.0, 5.0) is None
    assert replies.poll(25.0, 5.0) is None
    with pytest.raises(WorkerLost, match="worker 2 has sent nothing for 5 s"):
        replies.poll(25.1, 5.0)
    replies.inbox.append(REPLY)
    assert replies.poll(26.0, 5.0) == "made"
    with pytest.raises(WorkerLost, match="worker 2 has sent nothing for 5 s"):
        replies.poll(5.1, 5.0)


def test_a_reply_is_waited_for_and_a_ready_worker_may_be_silent_for_the_timeout_only():
    replies = ReplyReader(2, Inbox(READY, REPLY))

    assert replies.receive(5.0) == "made"
    with pytest.raises(WorkerLost, match=r"worker 2 has sent nothing for 0.5 s"):
        replies.receive(0.5)
    assert replies.inbox.waited == [600.0, 5.0, 0.5]


@pytest.mark.parametrize("read", [lambda one: one.poll(0.0, 5.0), lambda one: one.receive(5.0)])
def test_an_error_of_the_stages_is_raised(read):
    told = ("failed", pickle.dumps(ConfigError("set a=1")))

    with pytest.raises(ConfigError, match="set a=1"):
        read(ReplyReader(2, Inbox(READY, told)))
