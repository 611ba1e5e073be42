import math
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rlcomp.errors import ConfigError, MissingExtra
from rlcomp.functional import min_norm as module
from rlcomp.functional.min_norm import (
    cosines,
    dirichlet,
    lattice,
    min_norm,
    nearest_point,
    stationarity_gap,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "preference"
SETS = [f"m2{kind}" for kind in ("", "_conflict", "_opposite", "_aligned")]


SETS += [f"m3{kind}" for kind in ("", "_scales", "_dependent")] + ["m5"]


def gram_of(*rows):
    vectors = torch.tensor(rows, dtype=torch.float64)
    return vectors @ vectors.T


@st.composite
def vectors(draw, most=6):
    """Few dimensions, so that they depend on one another; whole numbers, so that some are equal."""
    count, width = draw(st.integers(1, most)), draw(st.integers(1, 4))
    row = st.lists(st.integers(-3, 3), min_size=width, max_size=width)
    rows = draw(st.lists(row, min_size=count, max_size=count))
    return torch.tensor(rows, dtype=torch.float64)


def test_min_norm_of_two_conflicting_vectors():
    # g1 = (1, 0), g2 = (-1/2, 1): c1 = g2.(g2 - g1) / |g1 - g2|^2 = 1.75 / 3.25 = 7 / 13 and
    # v = (7 - 3, 6) / 13; both gain v.v = 52 / 169 = 4 / 13.
    gram = gram_of([1.0, 0.0], [-0.5, 1.0])

    weights = min_norm(gram)

    torch.testing.assert_close(weights * 13, torch.tensor([7.0, 6.0]).double())
    torch.testing.assert_close(gram @ weights * 13, torch.tensor([4.0, 4.0]).double())


def test_min_norm_of_a_dominating_short_vector():
    # Gram [[5, 2], [2, 2]]: c1 = (2 - 2) / 3 = 0.
    assert min_norm(gram_of([1.0, 0.0, 2.0], [0.0, 1.0, 1.0])).tolist() == [0.0, 1.0]


def test_two_equal_vectors_have_equal_weights():
    assert min_norm(gram_of([1.0, 2.0], [1.0, 2.0])).tolist() == [0.5, 0.5]


def test_one_vector_has_weight_1():
    assert min_norm(gram_of([3.0, 4.0])).tolist() == [1.0]
    assert min_norm(gram_of([0.0, 0.0])).tolist() == [1.0]


@given(vectors())
def test_min_norm_satisfies_the_kkt_conditions(rows):
    gram = rows @ rows.T
    weights = min_norm(gram)
    along, square = gram @ weights, float(weights @ gram @ weights)
    size = max(float(gram.diagonal().max()), 1.0)

    assert float(weights.min()) >= 0
    assert float(weights.sum()) == pytest.approx(1)
    assert float(along.min()) >= square - 1e-8 * size
    used = weights > 1e-8
    torch.testing.assert_close(
        along[used], torch.full_like(along[used], square), atol=1e-7 * size, rtol=0
    )


@given(vectors(most=3))
def test_no_point_of_a_simplex_grid_is_shorter(rows):
    gram = rows @ rows.T
    steps = torch.arange(21).double() / 20
    grid = torch.cartesian_prod(*[steps] * len(rows)).reshape(-1, len(rows))
    grid = grid[(grid.sum(1) - 1).abs() < 1e-9]

    weights = min_norm(gram)

    lengths = torch.einsum("gi,ij,gj->g", grid, gram, grid)
    assert float(weights @ gram @ weights) <= float(lengths.min()) + 1e-9


@given(vectors(most=8))
def test_a_quadratic_programme_has_the_same_norm(rows):
    pytest.importorskip("quadprog")
    gram = rows @ rows.T
    size = float(gram.diagonal().max())
    assume(size > 0)

    ours, theirs = min_norm(gram), module._quadratic_program(gram / size)

    assert float(ours @ gram @ ours) == pytest.approx(
        float(theirs @ gram @ theirs), abs=1e-9 * size
    )


def test_up_to_eight_vectors_need_no_quadprog(monkeypatch):
    monkeypatch.setitem(sys.modules, "quadprog", None)

    # Orthogonal and of one length: the centre of the simplex.
    assert min_norm(torch.eye(8)).tolist() == pytest.approx([1 / 8] * 8)
    with pytest.raises(MissingExtra, match="quadprog"):
        min_norm(torch.eye(9))


def test_many_vectors_are_solved_by_a_quadratic_programme():
    pytest.importorskip("quadprog")
    # Orthogonal, of squared lengths 1, 2, ..., 12: weights proportional to 1 / length^2.
    squares = torch.arange(1.0, 13.0).double()

    weights = min_norm(torch.diag(squares))

    expected = (1 / squares) / (1 / squares).sum()
    torch.testing.assert_close(weights, expected, atol=1e-9, rtol=0)


def test_min_norm_of_vectors_of_very_different_norms():
    # Orthogonal, 1 and twice a short one: 1 / length^2 again.
    for square in (1e-12, 1e-24):
        weights = min_norm(torch.diag(torch.tensor([1.0, square, 3 * square]).double()))

        torch.testing.assert_close(weights, torch.tensor([0.75 * square, 0.75, 0.25]).double())


@given(vectors(), st.randoms(use_true_random=False))
def test_min_norm_follows_the_order_of_the_vectors(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    moved = rows[order]

    torch.testing.assert_close(
        min_norm(moved @ moved.T) @ moved, min_norm(rows @ rows.T) @ rows, atol=1e-6, rtol=0
    )


@given(vectors(most=5), st.integers(0, 4))
def test_a_duplicate_vector_changes_nothing(rows, which):
    more = torch.cat([rows, rows[which % len(rows)][None]])

    torch.testing.assert_close(
        min_norm(more @ more.T) @ more, min_norm(rows @ rows.T) @ rows, atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("name", SETS)
def test_min_norm_equals_torchjd(name):
    # Frank-Wolfe is slow where the optimum lies on a face (it ends 1.6e-4 above ours in one case):
    # the lengths are compared, and the vectors where there are two.
    case = load_file(GOLDEN / f"torchjd_{name}_mgda_tight.safetensors")
    rows, expected = case["in.jacobian"], case["out.vector"]

    result = min_norm(rows @ rows.T) @ rows

    assert float(result.norm()) == pytest.approx(float(expected.norm()), rel=2e-4, abs=1e-5)
    assert float(result.norm()) <= float(expected.norm()) + 1e-9
    if len(rows) == 2:
        torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-4)


def test_stationarity_gap_by_hand():
    # |v|^2 = 4 / 13, the longest vector has 1.25.
    gap = stationarity_gap(gram_of([1.0, 0.0], [-0.5, 1.0]))

    assert gap == pytest.approx(math.sqrt(4 / 13 / 1.25))


def test_stationarity_gap_of_cancelling_and_zero_vectors_is_0():
    assert stationarity_gap(gram_of([1.0, 2.0], [-3.0, -6.0])) == pytest.approx(0, abs=1e-8)
    assert stationarity_gap(torch.zeros(3, 3)) == 0.0


@given(vectors(), st.sampled_from([1e-6, 0.5, 1e6]))
def test_stationarity_gap_is_scale_free_and_between_0_and_1(rows, factor):
    gap = stationarity_gap(rows @ rows.T)

    assert 0 <= gap <= 1
    assert stationarity_gap(factor * rows @ rows.T) == pytest.approx(gap, abs=1e-5)


@given(seed=st.integers(0, 10000), count=st.integers(1, 5))
def test_cosines_equal_those_of_the_vectors(seed, count):
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 6, generator=draw, dtype=torch.float64)
    weights = torch.randn(count, generator=draw, dtype=torch.float64)

    result = cosines(rows @ rows.T, weights)

    expected = torch.nn.functional.cosine_similarity(rows, (weights @ rows)[None])
    torch.testing.assert_close(result, expected)


def test_cosines_of_cancelling_terms_are_near_0():
    # The difference of two vectors of length 1 is 6e-8 long: its cosines are -2e-9 / 6e-8 = -0.03;
    # with 1e-6 * (1 + 1) in place of its length they are -0.001.
    gram = torch.tensor([[1.0, 1 + 2e-9], [1 + 2e-9, 1 + 4e-9 + 4e-15]], dtype=torch.float64)

    assert cosines(gram, torch.tensor([1.0, -1.0])).abs().max() < 2e-3


def test_cosines_of_zero_vectors_are_0():
    eye = torch.diag(torch.tensor([1.0, 0.0]))

    assert cosines(eye, torch.tensor([2.0, 1.0])).tolist() == [1.0, 0.0]
    assert cosines(eye, torch.zeros(2)).tolist() == [0.0, 0.0]


WEIGHTS = st.lists(st.floats(0, 1), min_size=2, max_size=4).filter(lambda row: sum(row) > 0.01)


def normalise(row):
    weights = torch.tensor(row, dtype=torch.float64)
    return weights / weights.sum()


@pytest.mark.parametrize(("objectives", "levels"), [(1, 4), (2, 10), (3, 10), (4, 3)])
def test_lattice_has_every_composition_once(objectives, levels):
    points = lattice(objectives, levels)

    assert len({tuple(point) for point in points.tolist()}) == len(points)
    assert len(points) == math.comb(levels + objectives - 1, objectives - 1)
    assert bool((points >= 0).all())
    assert points.sum(1).tolist() == [levels] * len(points)


def test_lattice_begins_with_all_steps_on_the_first_objective():
    assert lattice(2, 3).tolist() == [[3, 0], [2, 1], [1, 2], [0, 3]]
    assert lattice(3, 1).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_nearest_point_of_a_sum_with_rounding_errors():
    weights = torch.tensor([0.500004, 0.500004], dtype=torch.float64)

    assert nearest_point(weights, 10**6).tolist() == [500_000, 500_000]


def test_nearest_point_by_hand():
    # Ninths: 5.76 and 3.24; the step that is left goes to the remainder .76. Of three equal thirds
    # of 10 steps, 3.33 each, the first gets it.
    assert nearest_point(torch.tensor([0.64, 0.36]), 9).tolist() == [6, 3]
    assert nearest_point(torch.full((3,), 1 / 3), 10).tolist() == [4, 3, 3]


@given(WEIGHTS, st.integers(1, 6))
def test_no_lattice_point_is_nearer(row, levels):
    weights = normalise(row)
    points = lattice(len(row), levels)

    distances = (points / levels - weights).square().sum(1)
    result = (nearest_point(weights, levels) / levels - weights).square().sum()

    assert float(result) <= float(distances.min()) + 1e-6


@given(st.integers(2, 4), st.integers(1, 30), st.sampled_from([torch.float32, torch.float64]))
def test_nearest_point_of_a_lattice_point_is_itself(objectives, levels, dtype):
    points = lattice(objectives, min(levels, 12))
    levels = int(points[0].sum())

    assert torch.equal(nearest_point((points / levels).to(dtype), levels), points)


@pytest.mark.parametrize("weights", [[0.5, 0.6], [1.2, -0.2], [math.nan, 1.0], [0.0, 0.0]])
def test_nearest_point_of_weights_off_the_simplex_raises(weights):
    for row_or_rows in (weights, [[0.5, 0.5], weights]):
        with pytest.raises(ConfigError, match="must be at least 0 and sum to 1") as error:
            nearest_point(torch.tensor(row_or_rows), 9)

        assert f"the preference {weights} is none" in str(error.value)


@pytest.mark.parametrize("alpha", [1e-4, 0.3, 1.0, 10.0])
def test_dirichlet_mean_and_variance(alpha):
    # Var = (K - 1) / (K^2 (K alpha + 1)). Of 20,000 draws the mean's error is 0.0034 at most, that
    # of the variance less: five standard errors are 0.02.
    drawn = dirichlet(20_000, 3, alpha, torch.Generator().manual_seed(0))

    torch.testing.assert_close(drawn.sum(1), torch.ones(20_000, dtype=torch.float64))
    assert float((drawn.mean(0) - 1 / 3).abs().max()) < 0.02
    assert float((drawn.var(0) - 2 / (9 * (3 * alpha + 1))).abs().max()) < 0.02


def test_dirichlet_with_a_uniform_draw_of_0_is_finite(monkeypatch):
    # It comes once in 2**53 draws: two logarithms of 0 would make NaN.
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.zeros(*shape, dtype=torch.float64))

    drawn = dirichlet(2, 3, 1.0, torch.Generator().manual_seed(0))

    torch.testing.assert_close(drawn.sum(1), torch.ones(2, dtype=torch.float64))
