import inspect

import pytest
import torch

from components.worlds.ring.gaussians import RingOfGaussians
from rlcomp.errors import ConfigError
from rlcomp.interfaces.stages import HasModes, nearest_mode


def test_modes_stand_evenly_on_the_circle():
    ring = RingOfGaussians(num_modes=4, radius=2.0, std=0.1)

    expected = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0], [0.0, -2.0]])
    torch.testing.assert_close(ring.centres, expected, atol=1e-6, rtol=0)
    assert isinstance(ring, HasModes)


def test_points_are_spread_around_every_mode_alike():
    ring = RingOfGaussians(num_modes=8, radius=2.0, std=0.15)

    points = ring.draw(8000, torch.Generator().manual_seed(0))

    mode = nearest_mode(points, ring.centres)
    # 1,000 each, standard deviation 30; the spread of 16,000 numbers is known to 1 %.
    assert torch.bincount(mode, minlength=8).float().sub(1000).abs().max() < 120
    assert float((points - ring.centres[mode]).std()) == pytest.approx(0.15, rel=0.03)


def test_the_same_generator_gives_the_same_points():
    ring = RingOfGaussians(num_modes=3, radius=1.0, std=0.1)
    one, other = (ring.draw(5, torch.Generator().manual_seed(4)) for _ in range(2))

    assert torch.equal(one, other)
    assert one.shape == (5, 2)


def test_a_spread_of_zero_is_refused():
    with pytest.raises(ConfigError, match="std"):
        RingOfGaussians(num_modes=3, radius=1.0, std=0.0)


@pytest.mark.parametrize(
    ("part", "numbers"), [(RingOfGaussians, {"num_modes": 8, "radius": 2.0, "std": 0.15})]
)
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
