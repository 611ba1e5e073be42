import torch
from torch import nn

from components.learner.anomaly import MedianSpike
from rlcomp.parallel.state_sync import (
    add_sums,
    load_small_state,
    modules_of,
    running_sums,
    small_state,
    sum_changes,
)


class Part(nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        self.tokens, self.kl, self.name, self.on = 0, 0.0, "a", False
        self.frozen = frozenset[str]()
        self.lost = float("nan")
        self.generator = torch.Generator().manual_seed(1)
        self.register_buffer("total", torch.zeros((), dtype=torch.float64))
        self.register_buffer("table", torch.zeros(3))
        self.spike = MedianSpike(window=2)
        self.model = nn.Linear(2, 2) if weight is None else weight

    def run_state(self):
        raise AssertionError("a node's own moments do not travel")


def test_the_state_of_one_is_that_of_the_other():
    one, other = Part(), Part()
    one.tokens, one.kl, one.name, one.on, one.frozen = 3, 0.5, "b", True, frozenset({"x"})
    one.total.fill_(2.0)
    one.table.fill_(7.0)
    one.generator.manual_seed(5)
    one.spike.is_spike(4.0)
    kept = other.model.weight.clone()

    load_small_state(other, [other.model], small_state(one, [one.model]))

    assert (other.tokens, other.kl, other.name, other.on) == (3, 0.5, "b", True)
    assert other.frozen == {"x"}
    assert float(other.total) == 2.0
    assert other.table.tolist() == [7.0, 7.0, 7.0]
    assert torch.equal(other.generator.get_state(), one.generator.get_state())
    assert other.spike.norms == [4.0]
    assert torch.equal(other.model.weight, kept)


def test_models_are_left_out():
    part = Part()

    assert modules_of(part, [part.model]) == [part, part.spike]
    assert modules_of(part, []) == [part, part.spike, part.model]


def test_what_passes_add_up_is_added_up_over_ranks():
    one, other = Part(), Part()
    before = running_sums([one])
    one.tokens, one.kl = 3, 0.5
    one.total.fill_(2.0)
    other.tokens, other.kl = 4, 0.25
    both = [
        a + b for a, b in zip(sum_changes([one], before), sum_changes([other], before), strict=True)
    ]

    for part in (one, other):
        add_sums([part], before, both)

        assert (part.tokens, part.kl, float(part.total)) == (7, 0.75, 2.0)
        assert type(part.tokens) is int
        assert part.lost != part.lost
        assert part.name == "a"
        assert part.on is False
        assert part.table.tolist() == [0.0, 0.0, 0.0]


def test_what_no_pass_changed_is_left_alone():
    part = Part()
    part.kl = 5.0
    before = running_sums([part])

    moved = sum_changes([part], before)
    add_sums([part], before, moved)

    assert set(moved) == {0.0}
    assert part.kl == 5.0
