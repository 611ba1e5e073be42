import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rlcomp.functional.scalarization import (
    chebyshev,
    chebyshev_weights,
    dual_ascent,
    projection,
    scalar_weights,
    smooth_chebyshev,
    smooth_chebyshev_weights,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "preference"
ZEROS = torch.zeros(2, dtype=torch.float64)


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


@st.composite
def problems(draw):
    """Returns on a grid so fine that none tie, a utopia point, weights."""
    count = draw(st.integers(1, 5))
    drawn = torch.Generator().manual_seed(draw(st.integers(0, 10000)))
    returns, above, weights = torch.rand(3, count, generator=drawn, dtype=torch.float64)
    return returns, returns.max() + above, weights + 0.1


def test_chebyshev_by_hand():
    # J = -loss: max(0.1, 0.25); 0.1 ln(e^1 + e^2.5) = 0.1 (2.5 + ln(1 + e^-1.5)) = 0.27014133.
    returns, weights = double(-0.2, -0.5), double(0.5, 0.5)

    assert float(chebyshev(returns, ZEROS, weights, 0.0)) == pytest.approx(0.25)
    assert float(chebyshev(returns, ZEROS, weights, 0.1)) == pytest.approx(0.25 + 0.035)
    smooth = float(smooth_chebyshev(returns, ZEROS, weights, 0.1))
    assert smooth == pytest.approx(0.27014133, abs=1e-8)


def test_chebyshev_weights_by_hand():
    weights = chebyshev_weights(double(-0.2, -0.5), ZEROS, double(0.5, 0.5), 0.01)

    torch.testing.assert_close(weights, double(0.005, 0.505))


def test_chebyshev_weights_of_tied_objectives_are_equal():
    weights = chebyshev_weights(double(1.0, 1.0, 2.0), double(2.0, 2.0, 2.0), double(1, 1, 1), 0.0)

    assert weights.tolist() == [0.5, 0.5, 0.0]


@given(problems(), st.sampled_from([0.0, 0.01, 1.0]), st.sampled_from([0.01, 0.1, 1.0]))
def test_scalarization_weights_are_minus_the_gradient(problem, rho, mu):
    returns, utopia, weights = problem
    returns.requires_grad_()

    (hard,) = torch.autograd.grad(chebyshev(returns, utopia, weights, rho), returns)
    (smooth,) = torch.autograd.grad(smooth_chebyshev(returns, utopia, weights, mu), returns)

    at = returns.detach()
    torch.testing.assert_close(chebyshev_weights(at, utopia, weights, rho), -hard)
    torch.testing.assert_close(smooth_chebyshev_weights(at, utopia, weights, mu), -smooth)


@given(problems(), st.sampled_from([0.001, 0.1, 1.0]))
def test_smooth_chebyshev_is_within_mu_ln_k_of_the_maximum(problem, mu):
    hard, smooth = chebyshev(*problem, 0.0), smooth_chebyshev(*problem, mu)

    assert float(hard) - 1e-12 <= float(smooth)
    assert float(smooth) <= float(hard) + mu * math.log(len(problem[0])) + 1e-12


@pytest.mark.parametrize(("case", "mu"), enumerate((0.01, 0.1, 1.0)))
def test_smooth_chebyshev_equals_torchjd(case, mu):
    result = load_file(GOLDEN / f"torchjd_scal_stch_{case}.safetensors")
    # Losses there: J = -loss and z = -reference.
    returns, utopia = -result["in.values"], -result["in.reference"]

    value = smooth_chebyshev(returns, utopia, result["in.weights"], mu)
    weights = smooth_chebyshev_weights(returns, utopia, result["in.weights"], mu)

    torch.testing.assert_close(value, result["out.value"], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(weights, result["out.grad"], rtol=1e-9, atol=1e-11)


def test_dual_ascent_by_hand():
    moved = dual_ascent(double(1, 1, 0.25, 3), double(0, 2, 9, torch.nan), double(1, 1, 1, 1), 0.5)

    assert moved.tolist() == [1.5, 0.5, 0.0, 3.0]


means = st.lists(st.integers(-6, 6).map(lambda n: n / 4), min_size=1, max_size=6)


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
def test_scalar_weights_by_hand(values, weights):
    torch.testing.assert_close(scalar_weights(double(*values)), double(*weights))


@given(means)
def test_scalar_weights_give_the_projection(values):
    result = double(*values)
    weights = scalar_weights(result)
    total = float(weights @ result)

    assert float(weights.min()) >= 0
    assert float(weights.sum()) == pytest.approx(1)
    assert total == pytest.approx(projection(result))
    shares = torch.arange(21).double() / 20
    pairs = shares[:, None, None] * result[:, None] + (1 - shares[:, None, None]) * result
    assert abs(total) <= float(pairs.abs().min()) + 1e-12


def test_scalar_weights_have_no_graph():
    weights = scalar_weights(double(-1.0, 2.0).requires_grad_())

    assert weights.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert not weights.requires_grad


@given(means, st.randoms(use_true_random=False))
def test_scalar_weights_follow_the_order_of_the_objectives(values, random):
    order = list(range(len(values)))
    random.shuffle(order)

    moved = scalar_weights(double(*values)[order])

    torch.testing.assert_close(moved, scalar_weights(double(*values))[order])


@pytest.mark.parametrize("case", range(5))
def test_projection_equals_another_implementation(case):
    result = load_file(GOLDEN / f"pama_proj_{case}.safetensors")

    got = projection(result["in.a"])

    assert got == pytest.approx(result["out.s_star"].item(), rel=1e-9, abs=1e-11)
    assert float(scalar_weights(result["in.a"]) @ result["in.a"]) == pytest.approx(got, abs=1e-11)


@pytest.mark.parametrize("case", range(4))
def test_projection_of_mean_positive_advantages_equals_another_implementation(case):
    result = load_file(GOLDEN / f"pama_ctwa_{case}.safetensors")

    got = projection(result["out.objective_scalars"])

    assert got == pytest.approx(result["out.s_star"].item(), rel=1e-9, abs=1e-11)
