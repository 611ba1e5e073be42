import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ConfigError
from rlcomp.functional.pass_at_k import bootstrap_interval, wilson_interval
from rlcomp.functional.statistics import difference_interval, share_interval

SHARES = st.lists(st.integers(0, 8), min_size=1, max_size=12)


def draws():
    return torch.Generator().manual_seed(0)


def test_yes_and_no_have_wilsons_interval():
    values = torch.tensor([1.0, 0.0, 0.0, 1.0])

    assert share_interval(values, 0.95, draws()) == wilson_interval(2, 4, 0.95)


@pytest.mark.parametrize("interval", [share_interval, difference_interval])
def test_values_that_differ_have_the_bootstraps(interval):
    values = torch.tensor([0.25, 0.5, 1.0])

    assert interval(values, 0.9, draws()) == bootstrap_interval(values, 0.9, draws())


def test_equal_values_have_the_width_of_what_was_not_seen():
    # Wilson's upper end of 0 in 3 at z = 1.959964: z^2 / (3 + z^2) = 3.841459 / 6.841459.
    width = 0.561497

    assert share_interval(torch.full((3,), 0.75), 0.95, draws()) == pytest.approx(
        (0.75 - width, 1.0), abs=1e-6
    )
    assert difference_interval(torch.full((3,), -0.25), 0.95, draws()) == pytest.approx(
        (-0.25 - width, -0.25 + width), abs=1e-6
    )
    # Within what a difference can be, at either end.
    assert difference_interval(torch.full((3,), -0.75), 0.95, draws()) == pytest.approx(
        (-1.0, -0.75 + width), abs=1e-6
    )
    assert difference_interval(torch.full((3,), 0.75), 0.95, draws()) == pytest.approx(
        (0.75 - width, 1.0), abs=1e-6
    )
    assert share_interval(torch.full((3,), 0.25), 0.95, draws()) == pytest.approx(
        (0.0, 0.25 + width), abs=1e-6
    )


def test_what_differs_by_a_rounding_is_equal():
    third = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64) / 3
    gained = torch.cat([third[1:] - third[:-1], third[:1]])
    assert len(gained.unique()) > 1

    low, high = difference_interval(gained, 0.95, draws())

    assert high - low > 1


@given(SHARES)
def test_the_interval_holds_the_mean_and_stays_within_the_shares(counts):
    values = torch.tensor(counts, dtype=torch.float64) / 8

    low, high = share_interval(values, 0.95, draws())

    assert 0 <= low <= float(values.mean()) + 1e-12
    assert float(values.mean()) - 1e-12 <= high <= 1
    assert high > low


@pytest.mark.parametrize("interval", [share_interval, difference_interval])
def test_no_problem_has_no_interval(interval):
    with pytest.raises(ConfigError, match="at least one problem"):
        interval(torch.zeros(0), 0.95, draws())
