"""A worker in an actor, here without one: what its calls bring is answered beside them."""

import pickle
import sys
import threading

import numpy as np
import pytest
import torch

from components.collector.group import GroupCollector
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.cluster import actor
from rlcomp.cluster.actor import ActorServer, PublishedArrays
from rlcomp.cluster.serialization import SerializedStages
from rlcomp.cluster.worker import process_settings
from rlcomp.errors import ConfigError, ProcessEnded
from rlcomp.interfaces.cluster import AsyncSettings, PromptRange, RolloutRequest
from rlcomp.testing import make_batch, tiny_policy

SECONDS = 60.0


class Weights:
    """A worker that shows what it was given."""

    def load(self, weights):
        self.found = [each.tolist() for each in weights]
        weights[0][:] = 9  # its own copy


def bytes_of(*values):
    array = np.array(values, dtype=np.uint8)
    array.flags.writeable = False  # as what Ray hands over
    return array


def test_weights_are_those_of_their_number_and_older_ones_are_dropped():
    handed, worker = PublishedArrays([1, 2]), Weights()
    first, second, third = (bytes_of(n, 1, 2) for n in (5, 6, 7))
    handed.arrays |= {3: first, 4: second, 5: third}

    assert handed.load(worker, 4) is True
    assert worker.found == [[6], [1, 2]]
    assert second.tolist() == [6, 1, 2]
    assert [*handed.arrays] == [4, 5]
    assert handed.load(worker, 5)
    assert worker.found == [[7], [1, 2]]


def told_by(serving, wanted):
    """So many messages; never longer than a minute."""
    found = []

    def fetch():
        while len(found) < wanted:
            found.extend(pickle.loads(each) for each in serving.tell())

    thread = threading.Thread(target=fetch, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert len(found) == wanted
    return found


def collector():
    torch.manual_seed(1)
    return GroupCollector(policy=tiny_policy(scale=4.0), group_size=2, max_new_tokens=4)


def weights_of(carried):
    return torch.cat(carried.weights).numpy().copy()


def request(number, *texts, of=None):
    batch = make_batch(prompt=encode_texts(texts))
    part = PromptRange(0, len(texts), of or len(texts))
    return pickle.dumps(RolloutRequest(number, None, 0.5, 9, (77,), part, batch))


@pytest.fixture
def serving():
    stage = collector()
    carried = SerializedStages([stage])
    made = ActorServer([], [len(each) for each in carried.weights])
    return made, stage, carried


def test_requests_are_answered_in_order_with_their_weights(serving):
    made, stage, carried = serving
    made.take(process_settings(), carried.data(), None)
    made.ask(0, weights_of(carried), request(4, "1+1=", "2+2="))
    stage.policy.updated()
    made.ask(1, weights_of(carried), request(5, "3"))

    ready, (first, one), (_, other) = told_by(made, 3)

    assert ready == ("ready", None)
    assert first == "reply"
    assert (one.number, one.version, other.number, other.version) == (4, 0, 5, 1)
    stage.generator.manual_seed(77)
    texts = make_batch(prompt=["1+1=", "2+2="])
    with torch.no_grad():
        assert torch.equal(one.rows["tokens"], stage(texts)["tokens"])


def test_an_async_worker_sends_each_group_separately(serving):
    made, _, carried = serving
    made.take(process_settings(), carried.data(), AsyncSettings(seats=2, look_every=2))
    made.ask(0, weights_of(carried), request(4, "1+1=", "2+2="))

    _, *told = told_by(made, 3)

    assert [kind for kind, _ in told] == ["reply", "reply"]
    assert [reply.part for _, reply in told] == [PromptRange(0, 1, 2), PromptRange(1, 1, 2)]
    prompts = [decode_texts(reply.rows["prompt"]) for _, reply in told]
    assert prompts == [["1+1="] * 2, ["2+2="] * 2]


def test_new_weights_may_come_without_a_request(serving):
    made, stage, carried = serving
    made.take(process_settings(), carried.data(), AsyncSettings(seats=2, look_every=2))
    stage.policy.updated()
    made.ask(0, weights_of(carried), pickle.dumps(None))
    stage.policy.updated()
    made.ask(1, weights_of(carried), request(4, "1+1="))

    _, (_, reply) = told_by(made, 2)

    assert reply.version == 2


def test_an_error_is_sent(serving, monkeypatch):
    def fails(_):
        raise ConfigError("set a=1")

    monkeypatch.setattr(actor, "serve_messages", fails)
    ((kind, body),) = told_by(ActorServer([], []), 1)

    assert kind == "failed"
    with pytest.raises(ConfigError, match="set a=1"):
        raise pickle.loads(body)


def test_code_that_ends_the_process_does_not_just_end_the_thread(monkeypatch):
    monkeypatch.setattr(actor, "serve_messages", lambda _: sys.exit(3))
    ((kind, body),) = told_by(ActorServer([], []), 1)

    assert kind == "failed"
    with pytest.raises(ProcessEnded, match=r"a stage on a worker ends the process \(SystemExit: 3"):
        raise pickle.loads(body)


def test_modules_are_looked_for_where_the_run_does_first(monkeypatch):
    monkeypatch.setattr(sys, "path", ["own", "both"])

    ActorServer(["both", "run"], [])

    assert sys.path == ["both", "run", "own"]
