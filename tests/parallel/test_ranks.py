"""Ranks that wait for one another: they come to an end, whatever happens to one of them."""

import os
import threading
import time
from functools import partial

import pytest
import torch
from torch import nn

from components.parallel import Replicate
from rlcomp.errors import ConfigError, NumericalError, ProcessEnded
from rlcomp.metrics import Ledger, progress, record, recording, step
from rlcomp.parallel.ranks import current_ranks, merge_ledgers, ranks, sharing
from rlcomp.testing import make_batch


class Node(nn.Module):
    """Something to be called together."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))
        self.asked = []

    def ask(self, rows=None):
        self.asked.append((current_ranks().rank, progress(), step()))
        return current_ranks().all_reduce(
            torch.tensor(1.0 if rows is None else float(rows["x"].sum()))
        )

    def twice(self):
        return current_ranks().call_on_all(self, "ask") + current_ranks().call_on_all(self, "ask")

    def fail(self):
        raise NumericalError("the loss is nan")

    def die(self, rank):
        if current_ranks().rank == rank:
            os._exit(9)
        current_ranks().all_gather(0)

    def sleep(self):
        time.sleep(60)


def led(do, timeout=20.0):
    """What rank 0 does, and how the others end."""
    with sharing(Replicate(timeout=timeout)) as group:
        node = Node()
        group.weights(node)
        if group.lead({"node": node}):
            return do(group, node)
        return node.asked


def test_ranks_do_together_what_rank_0_asks_for(of_all):
    def do(group, node):
        with recording(progress=0.25, step=7):
            rows = make_batch(x=torch.ones(4))
            return float(group.call_on_all(node, "ask", rows)), float(
                group.call_on_all(node, "twice")
            )

    first, *others = of_all(3, partial(led, do))

    # 3 ranks with 4 each; then 1 each, twice.
    assert first == (12.0, 6.0)
    assert others == [[(rank, 0.25, 7)] * 3 for rank in (1, 2)]


def test_a_process_by_itself_is_one_rank():
    with sharing(Replicate()) as group:
        assert ranks() is group
        assert (group.rank, group.size, group.device) == (0, 1, torch.device("cpu"))
        node = Node()
        group.weights(node)
        assert group.lead({"node": node})
        assert float(group.call_on_all(node, "ask")) == 1.0
    assert ranks() is None


def test_the_same_model_has_the_same_weights():
    with sharing(Replicate()) as group:
        node = Node()

        assert group.weights(node) is group.weights(node)
        assert len(group.models) == 1


def test_without_a_learner_there_is_nothing_to_lead():
    with sharing(Replicate()) as group, pytest.raises(ConfigError, match=r"^parallel: no learner"):
        group.lead({})


def test_a_model_that_is_no_node_is_refused():
    with sharing(Replicate()) as group:
        group.weights(Node())
        with pytest.raises(ConfigError, match=r"^Node is shared by 1 ranks.*lead\(make.nodes\)"):
            group.lead({"other": Node()})


def test_only_models_that_learn_are_read_together_and_only_from_the_main_thread():
    with sharing(Replicate()) as group:
        node, other = Node(), Node()
        group.weights(node)
        assert not group.can_share(node)  # before it leads
        group.lead({"node": node})
        found = []
        thread = threading.Thread(target=lambda: found.append(group.can_share(node)))
        thread.start()
        thread.join()

        assert group.can_share(node)
        assert not group.can_share(other)
        assert found == [False]
        group.busy = True
        assert not group.can_share(node)


def test_numbers_that_go_wrong_leave_the_others_waiting(of_all):
    def do(group, node):
        with pytest.raises(NumericalError):
            group.call_on_all(node, "fail")
        return float(group.call_on_all(node, "ask"))

    assert of_all(2, partial(led, do)) == [2.0, [(1, 0.0, 0)]]


def test_an_error_of_rank_0_lets_the_others_go(ranks_of):
    def do(group, node):
        group.call_on_all(node, "ask")
        raise KeyError("of a reward")

    first, second = ranks_of(2, partial(led, do), alarm=20)

    assert "of a reward" in first.error
    assert second.error is None
    assert second.value == [(1, 0.0, 0)]


@pytest.mark.parametrize("rank", [0, 1])
def test_where_one_dies_the_others_end(ranks_of, rank):
    def do(group, node):
        return group.call_on_all(node, "die", rank)

    begun = time.monotonic()
    ended = ranks_of(2, partial(led, do), alarm=8)

    # The one that died says nothing; the other is told by the connection, not by the timeout.
    assert not ended[rank].there
    assert "another rank is gone" in ended[1 - rank].error
    assert time.monotonic() - begun < 20


def test_rank_0_that_dies_between_two_calls_is_missed(ranks_of):
    def do(group, node):
        group.call_on_all(node, "ask")
        os._exit(9)

    _, other = ranks_of(2, partial(led, do), alarm=8)

    assert "ProcessEnded: rank 1: another rank is gone" in other.error


def test_nobody_waits_longer_than_the_timeout(ranks_of):
    def do(group, node):
        time.sleep(6)

    begun = time.monotonic()
    _, other = ranks_of(2, partial(led, do, timeout=2.0), alarm=12)

    assert "was silent for longer than parallel.timeout=2 seconds" in other.error
    assert time.monotonic() - begun < 15


def test_a_rank_that_nobody_joins_gives_up(monkeypatch):
    words = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)

    told = r"^rank 1 of 2 did not meet the others within parallel.timeout=1 seconds: .*torchrun"
    with pytest.raises(ProcessEnded, match=told), sharing(Replicate(timeout=1.0)):
        pass
    assert ranks() is None


def test_ledgers_are_merged_in_the_order_of_ranks():
    ledgers = []
    for value in (1.0, 4.0):
        with recording(progress=0.5, step=3) as ledger:
            record("a/b", value)
            ledger.samples.append({"of": value})
        ledgers.append(ledger)

    found = merge_ledgers(ledgers)

    assert isinstance(found, Ledger)
    assert found.means() == {"a/b": 2.5}
    assert [sample["of"] for sample in found.samples] == [1.0, 4.0]
    assert (found.progress, found.step) == (0.5, 3)


def test_the_largest_number_and_all_values(of_all):
    def do():
        with sharing(Replicate()) as group:
            return group.maximum(3 - group.rank), group.all_gather(f"r{group.rank}")

    assert of_all(2, do) == [(3, ["r0", "r1"])] * 2
