import pytest
import torch

from components.randomise import LogUniform
from rlcomp.errors import ConfigError
from rlcomp.interfaces.batched_environment import Randomises

NOMINAL = {"force": 10.0, "mass": 2.0}


def test_without_ranges_every_parameter_is_drawn_around_its_value():
    made = LogUniform(factor=4.0, ranges=None)

    assert made.ranges(NOMINAL) == {"force": (2.5, 40.0), "mass": (0.5, 8.0)}
    assert isinstance(made, Randomises)
    assert LogUniform(factor=1.0, ranges=None).ranges(NOMINAL) == {}


def test_with_ranges_only_these_are_drawn():
    assert LogUniform(factor=4.0, ranges={"mass": [1, 3]}).ranges(NOMINAL) == {"mass": (1.0, 3.0)}


def test_each_octave_is_as_likely():
    low, high = torch.full((8000, 1), 0.5), torch.full((8000, 1), 8.0)

    drawn = LogUniform(factor=2.0, ranges=None).draw(low, high, torch.Generator().manual_seed(0))

    # Four octaves: 2,000 in each, standard deviation 39.
    assert (torch.histc(drawn.log2(), bins=4, min=-1, max=3) - 2000).abs().max() < 160


def test_zero_has_no_logarithm():
    made = LogUniform(factor=2.0, ranges={"mass": [0.0, 1.0]})

    with pytest.raises(ConfigError, match=r"mass is \[0.0, 1.0\]: .* above 0"):
        made.ranges(NOMINAL)


def test_a_factor_below_one_is_refused():
    with pytest.raises(ConfigError, match="factor"):
        LogUniform(factor=0.9, ranges=None)
