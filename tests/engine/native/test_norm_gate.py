import pytest
import torch
import torch.nn.functional as F

from rlcomp.engine import layer_functions
from rlcomp.engine.native.build import build
from rlcomp.engine.native.norm_gate import rms_norm, silu_gate


@pytest.fixture(scope="module", autouse=True)
def library():
    build()


def torch_gate(gate, up):
    return F.silu(gate) * up


def normed(function, eps):
    return lambda x, weight: function(x, weight, eps)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def results(function, dtype, *given):
    given = [each.detach().to(dtype).requires_grad_() for each in given]
    out = function(*given)
    along = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out).to(dtype)
    out.backward(along)
    return [out.detach(), *(each.grad for each in given)]


# Less than a vector, whole vectors, a remainder; more rows than one block of sums.
SHAPES = [(1, 1), (3, 5), (2, 16), (4, 35), (130, 48), (2, 3, 24)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_rms_norm_agrees_with_float64(shape, eps):
    given = 3 * random(*shape), random(shape[-1], seed=1)

    actual = results(normed(rms_norm, eps), torch.float32, *given)
    expected = results(normed(layer_functions.rms_norm, eps), torch.float64, *given)

    for got, want in zip(actual, expected, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_gate_agrees_with_float64(shape):
    given = 4 * random(*shape), random(*shape, seed=1)

    actual = results(silu_gate, torch.float32, *given)
    expected = results(torch_gate, torch.float64, *given)

    for got, want in zip(actual, expected, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=2e-6, atol=2e-6)


def test_rms_norm_by_hand():
    x, weight = torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 2.0])

    # 12.5 + 12.5 = 25: 3 / 5 and 2 * 4 / 5.
    torch.testing.assert_close(rms_norm(x, weight, 12.5), torch.tensor([[0.6, 1.6]]))


def test_gate_of_extreme_values():
    gate = torch.tensor([-200.0, 0.0, 200.0, torch.nan], requires_grad=True)
    up = torch.tensor([2.0, 2.0, 2.0, 2.0], requires_grad=True)

    out = silu_gate(gate, up)
    out.sum().backward()

    assert out[:3].tolist() == [pytest.approx(0, abs=1e-30), 0.0, 400.0]
    assert gate.grad[:3].tolist() == [pytest.approx(0, abs=1e-30), 1.0, 2.0]
    assert up.grad[:3].tolist() == [pytest.approx(0, abs=1e-30), 0.0, 200.0]
    assert out[3].isnan()
    assert gate.grad[3].isnan()


@pytest.mark.parametrize("trained", [True, False])
def test_frozen_weights_get_no_gradient(trained):
    x, weight = random(2, 16).requires_grad_(), torch.ones(16, requires_grad=trained)

    rms_norm(x, weight, 1e-6).sum().backward()

    assert x.grad is not None
    assert (weight.grad is not None) == trained


def test_strided_tensors_are_accepted():
    x, y = random(16, 3).t(), random(16, 3, seed=1).t()

    torch.testing.assert_close(silu_gate(x, y), torch_gate(x, y))
    torch.testing.assert_close(
        rms_norm(x, torch.ones(32)[::2], 0.1), layer_functions.rms_norm(x, torch.ones(16), 0.1)
    )
    for function in (lambda: silu_gate(x, y), lambda: rms_norm(x, torch.ones(16), 0.1)):
        with torch.no_grad():
            quiet = function()
        torch.testing.assert_close(quiet, function())
    for given in ((x, y), (x, torch.ones(16))):
        function = silu_gate if given[1].ndim == 2 else normed(rms_norm, 0.1)
        dense = [each.contiguous() for each in given]
        for got, want in zip(
            results(function, torch.float32, *given),
            results(function, torch.float32, *dense),
            strict=True,
        ):
            torch.testing.assert_close(got, want)
