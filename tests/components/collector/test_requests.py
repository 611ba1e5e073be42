"""Every call of a collector is a request of its own seed."""

import pytest
import torch

from rlcomp.interfaces.stages import Collector
from rlcomp.seed import named_seed
from rlcomp.testing import make_batch


class Drawing(Collector):
    """Draws as many numbers as it is told."""

    reads = ()
    writes = ()
    keeps_prompt = False

    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(4)

    def forward(self, batch):
        return make_batch(x=torch.rand(self.count, generator=self.generator))


@pytest.mark.parametrize("before", [1, 50])
def test_the_second_request_draws_the_same_whatever_the_first_has(before):
    collector = Drawing()

    collector.count = before
    first = collector()["x"]
    collector.count = 3
    second = collector()["x"]

    assert torch.equal(first, torch.rand(before, generator=torch.Generator().manual_seed(4)))
    seed = named_seed(4, "request")
    assert torch.equal(second, torch.rand(3, generator=torch.Generator().manual_seed(seed)))


def test_collectors_do_not_split_unless_they_say_so():
    assert Collector.splits is False
