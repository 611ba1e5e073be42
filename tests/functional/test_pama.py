from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rlcomp.functional.scalarization import projection, scalar_weights

GOLDEN = Path(__file__).parents[1] / "golden" / "preference"

means = st.lists(st.integers(-6, 6).map(lambda n: n / 4), min_size=1, max_size=6)


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("values", "weights"),
    [
        ((0.75, 0.5), (0.0, 1.0)),
        # 2 / (2 + 1) of -1 and 1 / 3 of 2 make 0; what lies between is not needed.
        ((-1.0, 2.0, 0.5), (2 / 3, 1 / 3, 0.0)),
        ((-1.0, -0.25), (0.0, 1.0)),
        ((0.0, 2.0), (1.0, 0.0)),
        # Those that tie share: 1 / 2 of -1 and of 1, twice each.
        ((-1.0, 1.0, 1.0, -1.0), (0.25, 0.25, 0.25, 0.25)),
        ((0.5, 0.5), (0.5, 0.5)),
        ((0.0, 0.0), (0.5, 0.5)),
        ((-1e-300, 1e-300), (0.5, 0.5)),
    ],
)
def test_the_weights_of_scalars(values, weights):
    torch.testing.assert_close(scalar_weights(double(*values)), double(*weights))


@given(means)
def test_the_weighted_sum_is_the_projection_and_as_near_0_as_any_mixture(values):
    found = double(*values)
    weights = scalar_weights(found)
    total = float(weights @ found)

    assert float(weights.min()) >= 0
    assert float(weights.sum()) == pytest.approx(1)
    assert total == pytest.approx(projection(found))
    shares = torch.arange(21).double() / 20
    pairs = shares[:, None, None] * found[:, None] + (1 - shares[:, None, None]) * found
    assert abs(total) <= float(pairs.abs().min()) + 1e-12


def test_weights_are_data_even_if_the_means_have_a_graph():
    weights = scalar_weights(double(-1.0, 2.0).requires_grad_())

    assert weights.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert not weights.requires_grad


@given(means, st.randoms(use_true_random=False))
def test_the_order_of_the_scalars_does_not_matter(values, random):
    order = list(range(len(values)))
    random.shuffle(order)

    moved = scalar_weights(double(*values)[order])

    torch.testing.assert_close(moved, scalar_weights(double(*values))[order])


@pytest.mark.parametrize("case", range(5))
def test_the_projections_of_another_implementation_are_reproduced(case):
    found = load_file(GOLDEN / f"pama_proj_{case}.safetensors")

    got = projection(found["in.a"])

    assert got == pytest.approx(found["out.s_star"].item(), rel=1e-9, abs=1e-11)
    assert float(scalar_weights(found["in.a"]) @ found["in.a"]) == pytest.approx(got, abs=1e-11)


@pytest.mark.parametrize("case", range(4))
def test_so_are_those_of_its_mean_positive_advantages(case):
    found = load_file(GOLDEN / f"pama_ctwa_{case}.safetensors")

    got = projection(found["out.objective_scalars"])

    assert got == pytest.approx(found["out.s_star"].item(), rel=1e-9, abs=1e-11)
