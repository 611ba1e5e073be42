import math
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rlcomp.errors import MissingExtra
from rlcomp.functional import min_norm as module
from rlcomp.functional.min_norm import min_norm, stationarity_gap

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


def test_two_vectors_that_conflict():
    # g1 = (1, 0), g2 = (-1/2, 1): c1 = g2.(g2 - g1) / |g1 - g2|^2 = 1.75 / 3.25 = 7 / 13 and
    # v = (7 - 3, 6) / 13; both gain v.v = 52 / 169 = 4 / 13.
    gram = gram_of([1.0, 0.0], [-0.5, 1.0])

    weights = min_norm(gram)

    torch.testing.assert_close(weights * 13, torch.tensor([7.0, 6.0]).double())
    torch.testing.assert_close(gram @ weights * 13, torch.tensor([4.0, 4.0]).double())


def test_a_vector_that_is_shorter_than_any_mixture_stands_alone():
    # Gram [[5, 2], [2, 2]]: c1 = (2 - 2) / 3 = 0.
    assert min_norm(gram_of([1.0, 0.0, 2.0], [0.0, 1.0, 1.0])).tolist() == [0.0, 1.0]


def test_two_equal_vectors_share():
    assert min_norm(gram_of([1.0, 2.0], [1.0, 2.0])).tolist() == [0.5, 0.5]


def test_one_vector_has_the_weight_1_and_so_has_one_of_length_0():
    assert min_norm(gram_of([3.0, 4.0])).tolist() == [1.0]
    assert min_norm(gram_of([0.0, 0.0])).tolist() == [1.0]


@given(vectors())
def test_the_conditions_of_karush_kuhn_and_tucker_hold(rows):
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
def test_no_point_of_a_grid_on_the_simplex_is_shorter(rows):
    gram = rows @ rows.T
    steps = torch.arange(21).double() / 20
    grid = torch.cartesian_prod(*[steps] * len(rows)).reshape(-1, len(rows))
    grid = grid[(grid.sum(1) - 1).abs() < 1e-9]

    weights = min_norm(gram)

    lengths = torch.einsum("gi,ij,gj->g", grid, gram, grid)
    assert float(weights @ gram @ weights) <= float(lengths.min()) + 1e-9


@given(vectors(most=8))
def test_a_quadratic_programme_finds_the_same_length(rows):
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

    wanted = (1 / squares) / (1 / squares).sum()
    torch.testing.assert_close(weights, wanted, atol=1e-9, rtol=0)


def test_short_vectors_are_not_lost_beside_long_ones():
    # Orthogonal, 1 and twice a short one: 1 / length^2 again.
    for square in (1e-12, 1e-24):
        weights = min_norm(torch.diag(torch.tensor([1.0, square, 3 * square]).double()))

        torch.testing.assert_close(weights, torch.tensor([0.75 * square, 0.75, 0.25]).double())


@given(vectors(), st.randoms(use_true_random=False))
def test_the_order_of_the_vectors_does_not_matter(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    moved = rows[order]

    torch.testing.assert_close(
        min_norm(moved @ moved.T) @ moved, min_norm(rows @ rows.T) @ rows, atol=1e-6, rtol=0
    )


@given(vectors(most=5), st.integers(0, 4))
def test_a_vector_given_twice_changes_nothing(rows, which):
    more = torch.cat([rows, rows[which % len(rows)][None]])

    torch.testing.assert_close(
        min_norm(more @ more.T) @ more, min_norm(rows @ rows.T) @ rows, atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("name", SETS)
def test_torchjd_s_combination_is_as_short(name):
    # Frank-Wolfe is slow where the optimum lies on a face (it ends 1.6e-4 above ours in one case):
    # the lengths are compared, and the vectors where there are two.
    case = load_file(GOLDEN / f"torchjd_{name}_mgda_tight.safetensors")
    rows, want = case["in.jacobian"], case["out.vector"]

    got = min_norm(rows @ rows.T) @ rows

    assert float(got.norm()) == pytest.approx(float(want.norm()), rel=2e-4, abs=1e-5)
    assert float(got.norm()) <= float(want.norm()) + 1e-9
    if len(rows) == 2:
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


def test_the_gap_is_the_shortest_over_the_longest():
    # |v|^2 = 4 / 13, the longest vector has 1.25.
    gap = stationarity_gap(gram_of([1.0, 0.0], [-0.5, 1.0]))

    assert gap == pytest.approx(math.sqrt(4 / 13 / 1.25))


def test_vectors_that_cancel_and_vectors_of_length_0_leave_no_gap():
    assert stationarity_gap(gram_of([1.0, 2.0], [-3.0, -6.0])) == pytest.approx(0, abs=1e-8)
    assert stationarity_gap(torch.zeros(3, 3)) == 0.0


@given(vectors(), st.sampled_from([1e-6, 0.5, 1e6]))
def test_the_gap_is_free_of_scale_and_between_0_and_1(rows, factor):
    gap = stationarity_gap(rows @ rows.T)

    assert 0 <= gap <= 1
    assert stationarity_gap(factor * rows @ rows.T) == pytest.approx(gap, abs=1e-5)
