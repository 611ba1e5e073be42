import pytest
import torch

from components.randomise import UniformDynamics
from rlcomp.errors import ConfigError
from rlcomp.interfaces.batched_environment import Randomises

NOMINAL = {"force": 10.0, "mass": 2.0}


def test_without_ranges_every_parameter_is_drawn_around_its_value():
    made = UniformDynamics(width=0.25, ranges=None)

    assert made.ranges(NOMINAL) == {"force": (7.5, 12.5), "mass": (1.5, 2.5)}
    assert isinstance(made, Randomises)


def test_with_ranges_only_these_are_drawn():
    made = UniformDynamics(width=0.25, ranges={"mass": [-1, 3]})

    assert made.ranges(NOMINAL) == {"mass": (-1.0, 3.0)}


def test_a_range_of_one_value_draws_nothing():
    assert UniformDynamics(width=0.0, ranges=None).ranges(NOMINAL) == {}
    assert UniformDynamics(width=0.5, ranges={"mass": [3.0, 3.0]}).ranges(NOMINAL) == {}


def test_draws_are_spread_evenly():
    low, high = torch.full((8000, 1), -1.0), torch.full((8000, 1), 3.0)

    drawn = UniformDynamics(width=0.5, ranges=None).draw(
        low, high, torch.Generator().manual_seed(0)
    )

    # 2,000 in each quarter, standard deviation 39.
    assert (torch.histc(drawn, bins=4, min=-1, max=3) - 2000).abs().max() < 160


@pytest.mark.parametrize(
    ("ranges", "told"),
    [
        ({"forse": [1, 2]}, r"randomise\.ranges\.forse: .* no such parameter.*'force'"),
        ({"mass": [2, 1]}, r"randomise\.ranges\.mass is \[2, 1\]: must be \[low, high\]"),
        ({"mass": [2]}, r"mass is \[2\]: must be"),
        ({"mass": [1, 2, 3]}, r"mass is \[1, 2, 3\]: must be"),
    ],
)
def test_a_wrong_range_is_refused_by_name(ranges, told):
    with pytest.raises(ConfigError, match=told):
        UniformDynamics(width=0.5, ranges=ranges).ranges(NOMINAL)


def test_a_width_of_one_which_reaches_zero_is_refused():
    with pytest.raises(ConfigError, match="width"):
        UniformDynamics(width=1.0, ranges=None)
