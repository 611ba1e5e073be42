import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ConfigError
from rlcomp.functional.min_norm import dirichlet, lattice, nearest_point

WEIGHTS = st.lists(st.floats(0, 1), min_size=2, max_size=4).filter(lambda row: sum(row) > 0.01)


def simplex(row):
    weights = torch.tensor(row, dtype=torch.float64)
    return weights / weights.sum()


@pytest.mark.parametrize(("objectives", "levels"), [(1, 4), (2, 10), (3, 10), (4, 3)])
def test_the_lattice_holds_every_way_to_share_out_the_steps_once(objectives, levels):
    points = lattice(objectives, levels)

    assert len({tuple(point) for point in points.tolist()}) == len(points)
    assert len(points) == math.comb(levels + objectives - 1, objectives - 1)
    assert bool((points >= 0).all())
    assert points.sum(1).tolist() == [levels] * len(points)


def test_the_lattice_begins_with_all_steps_on_the_first_objective():
    assert lattice(2, 3).tolist() == [[3, 0], [2, 1], [1, 2], [0, 3]]
    assert lattice(3, 1).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_what_rounding_did_to_the_sum_does_not_add_steps():
    weights = torch.tensor([0.500004, 0.500004], dtype=torch.float64)

    assert nearest_point(weights, 10**6).tolist() == [500_000, 500_000]


def test_rounding_by_hand():
    # Ninths: 5.76 and 3.24; the step that is left goes to the remainder .76. Of three equal thirds
    # of 10 steps, 3.33 each, the first gets it.
    assert nearest_point(torch.tensor([0.64, 0.36]), 9).tolist() == [6, 3]
    assert nearest_point(torch.full((3,), 1 / 3), 10).tolist() == [4, 3, 3]


@given(WEIGHTS, st.integers(1, 6))
def test_no_point_of_the_lattice_is_nearer(row, levels):
    weights = simplex(row)
    points = lattice(len(row), levels)

    distances = (points / levels - weights).square().sum(1)
    found = (nearest_point(weights, levels) / levels - weights).square().sum()

    assert float(found) <= float(distances.min()) + 1e-6


@given(st.integers(2, 4), st.integers(1, 30), st.sampled_from([torch.float32, torch.float64]))
def test_points_of_the_lattice_stay_where_they_are(objectives, levels, dtype):
    points = lattice(objectives, min(levels, 12))
    levels = int(points[0].sum())

    assert torch.equal(nearest_point((points / levels).to(dtype), levels), points)


@pytest.mark.parametrize("weights", [[0.5, 0.6], [1.2, -0.2], [math.nan, 1.0], [0.0, 0.0]])
def test_what_is_no_preference_is_refused(weights):
    for row_or_rows in (weights, [[0.5, 0.5], weights]):
        with pytest.raises(ConfigError, match="must be at least 0 and sum to 1") as error:
            nearest_point(torch.tensor(row_or_rows), 9)

        assert f"the preference {weights} is none" in str(error.value)


@pytest.mark.parametrize("alpha", [1e-4, 0.3, 1.0, 10.0])
def test_draws_have_mean_and_variance_of_the_dirichlet_distribution(alpha):
    # Var = (K - 1) / (K^2 (K alpha + 1)). Of 20,000 draws the mean's error is 0.0034 at most, that
    # of the variance less: five standard errors are 0.02.
    drawn = dirichlet(20_000, 3, alpha, torch.Generator().manual_seed(0))

    torch.testing.assert_close(drawn.sum(1), torch.ones(20_000, dtype=torch.float64))
    assert float((drawn.mean(0) - 1 / 3).abs().max()) < 0.02
    assert float((drawn.var(0) - 2 / (9 * (3 * alpha + 1))).abs().max()) < 0.02


def test_a_uniform_draw_of_0_is_harmless(monkeypatch):
    # It comes once in 2**53 draws: two logarithms of 0 would make NaN.
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.zeros(*shape, dtype=torch.float64))

    drawn = dirichlet(2, 3, 1.0, torch.Generator().manual_seed(0))

    torch.testing.assert_close(drawn.sum(1), torch.ones(2, dtype=torch.float64))
