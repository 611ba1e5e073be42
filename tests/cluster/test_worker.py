import pickle
import random

import numpy as np
import pytest
import torch

from rlcomp.cluster import worker as module
from rlcomp.cluster.serialization import SerializedStages
from rlcomp.cluster.worker import (
    StageWorker,
    apply_settings,
    failure,
    process_settings,
    version_of,
)
from rlcomp.component import Component
from rlcomp.engine.uniforms import uniform
from rlcomp.errors import ConfigError, ProcessEnded
from rlcomp.interfaces.cluster import PromptRange, RolloutRequest
from rlcomp.metrics import progress, record, step
from rlcomp.seed import named_seed
from rlcomp.testing import make_batch


class Drawn(Component):
    """Writes what it draws for each row, and what it knows of the run."""

    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(9)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, batch):
        batch["drawn"] = uniform(len(batch), self.generator)[:, 0] * self.scale
        drawn = [float(torch.rand(())), random.random(), np.random.rand()]
        batch["globally"] = torch.tensor([drawn] * len(batch), dtype=torch.float64)
        record("drawn/rows", float(len(batch)))
        batch["told"] = torch.tensor([[progress(), step()]] * len(batch))
        return batch


class Own(Drawn):
    def forward(self, batch):
        return batch.set("drawn", torch.rand(len(batch), generator=self.generator))


class Counting(Drawn):
    def forward(self, batch):
        self.scale += 1
        return batch


class Ending(Drawn):
    def forward(self, batch):
        raise SystemExit(3)


def worker(stage):
    carried = SerializedStages([stage])
    made = StageWorker(carried.data())
    made.load([each.clone() for each in carried.weights])
    return made


def request(rows, part=None, seed=5, number=0):
    batch = make_batch(x=torch.zeros(rows))
    part = part or PromptRange(0, rows, rows)
    return RolloutRequest(number, None, 0.25, 7, (seed,), part, batch)


def test_an_answer_is_a_function_of_the_request():
    made = worker(Drawn())

    first = made.answer(request(4))
    made.answer(request(9, seed=6, number=1))
    again = made.answer(request(4))

    expected = torch.rand(4, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    assert first.rows["drawn"].tolist() == expected[:, 0].tolist()
    assert torch.equal(first.rows["drawn"], again.rows["drawn"])
    assert torch.equal(first.rows["globally"], again.rows["globally"])
    assert first.rows["told"].tolist() == [[0.25, 7.0]] * 4
    assert (first.number, first.version, first.ledger.means()) == (0, None, {"drawn/rows": 4.0})
    assert 0 < first.seconds < 60


def test_parts_draw_what_the_whole_does():
    made = worker(Drawn())

    whole = made.answer(request(4)).rows["drawn"]
    parts = [made.answer(request(2, PromptRange(first, 2, 4))).rows["drawn"] for first in (0, 2)]

    assert torch.equal(torch.cat(parts), whole)


def test_weights_are_those_that_were_loaded_last():
    made = worker(Drawn())
    made.load([torch.tensor([2.0]).view(torch.uint8)])

    drawn = made.answer(request(1)).rows["drawn"]

    first = torch.rand(1, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    assert torch.equal(drawn, 2 * first)


def test_a_part_whose_stage_draws_for_whole_batches_is_refused():
    made = worker(Own())

    made.answer(request(2))
    with pytest.raises(ConfigError, match=r"Own or its policy does not draw .* set cluster"):
        made.answer(request(2, PromptRange(0, 2, 4)))


def test_a_stage_that_keeps_a_count_is_refused():
    with pytest.raises(ConfigError, match=r"Counting changes its buffer 'scale' .* cluster.remote"):
        worker(Counting()).answer(request(2))


def test_a_stage_that_exits_is_an_error():
    with pytest.raises(ProcessEnded, match=r"a stage on a worker ends the process .*3"):
        worker(Ending()).answer(request(2))


def test_settings_of_the_process_are_carried_over():
    before = process_settings()
    other = {"dtype": torch.float64, "deterministic": True, "matmul": "medium"}
    other["threads"] = before["threads"] + 1
    assert not set(other.items()) & set(before.items())
    try:
        apply_settings({**before, **other})
        found = process_settings()
    finally:
        apply_settings(before)

    assert found == {**before, **other}
    assert set(before) == {"threads", "dtype", "matmul", "deterministic"}
    assert process_settings() == before


def test_a_worker_keeps_freed_memory(monkeypatch):
    called = []
    monkeypatch.setattr(module, "keep_freed_memory", lambda: called.append(1))

    apply_settings(process_settings())

    assert called == [1]


def test_global_generators_are_seeded_by_request_and_part():
    made = worker(Drawn())

    def drawn(**changes):
        return tuple(made.answer(request(2, **changes)).rows["globally"][0].tolist())

    first = drawn()
    others = [drawn(seed=6), drawn(number=1), drawn(part=PromptRange(1, 2, 4))]
    for place in range(3):  # of torch, of random, of numpy
        assert len({each[place] for each in (first, *others)}) == 4
    seed = named_seed(0, "(5,) 0")
    assert first[2] == np.random.RandomState(seed % 2**32).rand()
    assert drawn() == first


def test_a_version_is_that_of_the_first_policy():
    class Policy:
        version = 3

    without, having = Drawn(), Drawn()
    object.__setattr__(having, "policy", Policy())

    assert version_of([without]) is None
    assert version_of([without, having]) == 3


class NeedsMore(ValueError):
    """Can be sent, and not be made again of what arrives."""

    def __init__(self, name, value):
        super().__init__(f"{name} is {value}")


def test_an_error_that_cannot_be_pickled_is_sent_as_text():
    arrived = pickle.loads(failure(NeedsMore("a", 1)))

    assert isinstance(arrived, RuntimeError)
    assert str(arrived) == "NeedsMore: a is 1"


def test_an_error_is_pickled_or_sent_as_text():
    class Local(ValueError):
        pass

    plain = pickle.loads(failure(ConfigError("set a=1")))
    other = pickle.loads(failure(Local("no")))

    assert isinstance(plain, ConfigError)
    assert str(plain) == "set a=1"
    assert isinstance(other, RuntimeError)
    assert str(other) == "Local: no"
