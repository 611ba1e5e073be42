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


def test_losses_of_two_and_five_tenths():
    # J = -loss: max(0.1, 0.25); 0.1 ln(e^1 + e^2.5) = 0.1 (2.5 + ln(1 + e^-1.5)) = 0.27014133.
    returns, weights = double(-0.2, -0.5), double(0.5, 0.5)

    assert float(chebyshev(returns, ZEROS, weights, 0.0)) == pytest.approx(0.25)
    assert float(chebyshev(returns, ZEROS, weights, 0.1)) == pytest.approx(0.25 + 0.035)
    smooth = float(smooth_chebyshev(returns, ZEROS, weights, 0.1))
    assert smooth == pytest.approx(0.27014133, abs=1e-8)


def test_the_objective_furthest_behind_takes_its_weight_and_all_their_share_of_rho():
    weights = chebyshev_weights(double(-0.2, -0.5), ZEROS, double(0.5, 0.5), 0.01)

    torch.testing.assert_close(weights, double(0.005, 0.505))


def test_objectives_that_are_behind_alike_share():
    weights = chebyshev_weights(double(1.0, 1.0, 2.0), double(2.0, 2.0, 2.0), double(1, 1, 1), 0.0)

    assert weights.tolist() == [0.5, 0.5, 0.0]


@given(problems(), st.sampled_from([0.0, 0.01, 1.0]), st.sampled_from([0.01, 0.1, 1.0]))
def test_the_weights_are_minus_the_gradient(problem, rho, mu):
    returns, utopia, weights = problem
    returns.requires_grad_()

    (hard,) = torch.autograd.grad(chebyshev(returns, utopia, weights, rho), returns)
    (smooth,) = torch.autograd.grad(smooth_chebyshev(returns, utopia, weights, mu), returns)

    at = returns.detach()
    torch.testing.assert_close(chebyshev_weights(at, utopia, weights, rho), -hard)
    torch.testing.assert_close(smooth_chebyshev_weights(at, utopia, weights, mu), -smooth)


@given(problems(), st.sampled_from([0.001, 0.1, 1.0]))
def test_the_smooth_form_lies_between_the_maximum_and_mu_ln_k_above(problem, mu):
    hard, smooth = chebyshev(*problem, 0.0), smooth_chebyshev(*problem, mu)

    assert float(hard) - 1e-12 <= float(smooth)
    assert float(smooth) <= float(hard) + mu * math.log(len(problem[0])) + 1e-12


@pytest.mark.parametrize(("case", "mu"), enumerate((0.01, 0.1, 1.0)))
def test_torchjd_s_smooth_form_and_its_gradient_are_reproduced(case, mu):
    found = load_file(GOLDEN / f"torchjd_scal_stch_{case}.safetensors")
    # Losses there: J = -loss and z = -reference.
    returns, utopia = -found["in.values"], -found["in.reference"]

    value = smooth_chebyshev(returns, utopia, found["in.weights"], mu)
    weights = smooth_chebyshev_weights(returns, utopia, found["in.weights"], mu)

    torch.testing.assert_close(value, found["out.value"], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(weights, found["out.grad"], rtol=1e-9, atol=1e-11)


def test_a_multiplier_grows_below_its_threshold_falls_above_it_and_stops_at_0():
    moved = dual_ascent(double(1, 1, 0.25, 3), double(0, 2, 9, torch.nan), double(1, 1, 1, 1), 0.5)

    assert moved.tolist() == [1.5, 0.5, 0.0, 3.0]
