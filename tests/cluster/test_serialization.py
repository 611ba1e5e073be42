import threading

import pytest
import torch
from torch import nn

from components.collector.group import GroupCollector
from rlcomp.cluster.serialization import SerializedStages, unpack
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch, tiny_policy


class Holding(Component):
    """A stage that holds whatever it is given."""

    def __init__(self, **held):
        super().__init__()
        for name, value in held.items():
            setattr(self, name, value)

    def forward(self, batch):
        return batch


def arrived(*stages):
    carried = SerializedStages(stages)
    found, generators, weights = unpack(carried.data())
    for mine, published in zip(weights, carried.weights, strict=True):
        mine.copy_(published)
    return carried, found, generators, weights


def test_a_collector_arrives_and_answers_the_same():
    collector = GroupCollector(policy=tiny_policy(), group_size=2, max_new_tokens=4)
    prompts = make_batch(prompt=["1+2=", "7="])

    _, (copy,), (generator,), _ = arrived(collector)
    generator.manual_seed(collector.generator.initial_seed())

    with torch.no_grad():
        here, there = collector(prompts), copy(prompts)
    assert copy.generator is generator
    assert all(torch.equal(here[key], there[key]) for key in here.keys())


def test_what_may_change_arrives_with_a_request_and_the_rest_with_the_stage():
    module = nn.Linear(2, 1)
    module.bias.requires_grad_(False)
    module.register_buffer("count", torch.tensor([3]))
    held = torch.tensor([5.0])

    carried = SerializedStages([Holding(module=module, held=held)])
    (copy,), _, weights = unpack(carried.data())

    # 2 float32 and an int64; what a worker has of them before they are published is 0.
    assert sorted(len(each) for each in carried.weights) == [8, 8]
    assert copy.module.weight.tolist() == [[0.0, 0.0]]
    assert copy.module.count.tolist() == [0]
    assert torch.equal(copy.module.bias, module.bias)
    assert copy.held.tolist() == [5.0]
    for mine, published in zip(weights, carried.weights, strict=True):
        mine.copy_(published)
    assert torch.equal(copy.module.weight, module.weight)
    assert copy.module.count.tolist() == [3]


def test_published_weights_are_those_of_now():
    module = nn.Linear(1, 1, bias=False)
    carried = SerializedStages([Holding(module=module)])

    with torch.no_grad():
        module.weight.fill_(2.5)

    assert carried.weights[0].view(torch.float32).tolist() == [2.5]


def test_tied_weights_and_views_stay_tied():
    one = nn.Linear(2, 2, bias=False)
    other = nn.Linear(2, 2, bias=False)
    other.weight = one.weight

    carried, (copy,), _, _ = arrived(Holding(one=one, other=other, row=one.weight.detach()[1]))

    assert len(carried.weights) == 1
    assert copy.one.weight is copy.other.weight
    assert copy.row.tolist() == one.weight[1].tolist()
    copy.one.weight.data[1] = 9.0
    assert copy.row.tolist() == [9.0, 9.0]


def test_a_module_that_no_module_holds_is_found():
    class Judge:
        def __init__(self, model):
            self.model = model

    carried = SerializedStages([Holding(judge=Judge(nn.Linear(1, 1)))])

    assert len(carried.weights) == 2


def test_generators_arrive_in_order_each_once():
    one, other = torch.Generator(), torch.Generator()

    carried, (copy,), generators, _ = arrived(Holding(a=one, b=other, c=one))

    assert carried.generators == [one, other]
    assert [copy.a, copy.b, copy.c] == [generators[0], generators[1], generators[0]]
    assert (copy.a.first, copy.a.prompts, copy.a.total_prompts) == (0, 1, 1)


class Counting:
    def run_state(self):
        return {}

    def load_run_state(self, state):
        pass


def test_a_part_with_a_state_is_refused_by_name():
    told = r"a Counting, a part of Holding, has a state .* take it out .* cluster=none"

    with pytest.raises(ConfigError, match=told):
        SerializedStages([Holding(part=Counting())])
    SerializedStages([Holding(kind=Counting)])  # the class has none


class Rewinding(torch.nn.Module):
    """As an environment whose buffers are where it is."""

    def present(self):
        raise AssertionError


def test_so_is_an_environment_whose_state_is_tensors():
    with pytest.raises(ConfigError, match="a Rewinding, a part of Holding, has a state"):
        SerializedStages([Holding(part=Rewinding())])


def test_a_state_is_refused_before_a_pickling_error():
    counting = Counting()
    counting.numbers = (number for number in range(3))

    with pytest.raises(ConfigError, match=r"a Counting, .* has a state"):
        SerializedStages([Holding(part=counting)])


def test_an_unsendable_stage_is_refused():
    with pytest.raises(ConfigError, match=r"a part of Holding cannot be sent to a worker .*lock"):
        SerializedStages([Holding(lock=threading.Lock())])
