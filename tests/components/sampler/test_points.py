import torch

from components.sampler.prompts import Points
from components.worlds.ring.gaussians import RingOfGaussians
from rlcomp.testing import check_component

RING = RingOfGaussians(num_modes=3, radius=1.0, std=0.1)


def test_a_batch_is_drawn_with_its_own_generator():
    torch.manual_seed(5)
    points = Points(distribution=RING, batch_size=7)
    expected = RING.draw(7, torch.Generator().manual_seed(5))

    assert torch.equal(points()["sample"], expected)
    assert not torch.equal(points()["sample"], expected)


def test_it_keeps_the_contract():
    check_component(Points(distribution=RING, batch_size=4))
