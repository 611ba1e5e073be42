import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.engine.layer_functions import rms_norm, rotate

X, WEIGHT = torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 2.0])


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def formula(x, weight, eps):
    return weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def test_rms_norm_by_hand():
    # The mean square is 12.5: 3 / sqrt(12.5) and 2 * 4 / sqrt(12.5).
    expected = torch.tensor([[0.848528, 2.262742]])

    torch.testing.assert_close(rms_norm(X, WEIGHT, 0.0), expected)


def test_rms_norm_adds_eps_to_the_mean_square():
    # 12.5 + 12.5 = 25: 3 / 5 and 2 * 4 / 5.
    torch.testing.assert_close(rms_norm(X, WEIGHT, 12.5), torch.tensor([[0.6, 1.6]]))


def test_rms_norm_of_zeros_has_a_gradient_bounded_by_eps():
    x = torch.zeros(1, 2, requires_grad=True)

    y = rms_norm(x, WEIGHT, 0.25)
    y.sum().backward()

    assert y.tolist() == [[0.0, 0.0]]
    # weight / sqrt(0.25)
    torch.testing.assert_close(x.grad, torch.tensor([[2.0, 4.0]]))


def test_rms_norm_gradient_by_hand():
    # With r = sqrt(12.5) and 2 r^3 = 88.388: the derivatives of x_0 / r are 1 / r - 9 / (2 r^3)
    # and -12 / (2 r^3).
    x, weight = X.clone().requires_grad_(), torch.ones(2, requires_grad=True)

    rms_norm(x, weight, 0.0)[0, 0].backward()

    torch.testing.assert_close(x.grad, torch.tensor([[0.181019, -0.135765]]), atol=1e-6, rtol=0)
    torch.testing.assert_close(weight.grad, torch.tensor([0.848528, 0.0]))


@pytest.mark.parametrize("eps", [1e-6, 0.5])
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (5,)])
def test_rms_norm_gradients_agree_with_finite_differences(shape, eps):
    x, weight = random(*shape).requires_grad_(), random(shape[-1], seed=1).requires_grad_()

    assert torch.autograd.gradcheck(lambda *given: rms_norm(*given, eps), (x, weight))


@given(st.integers(0, 2**31), st.sampled_from([0.0, 1e-5, 1.0]))
def test_rms_norm_agrees_with_the_formula(seed, eps):
    x, weight = random(4, 6, seed=seed).requires_grad_(), random(6, seed=seed + 1).requires_grad_()
    along = random(4, 6, seed=seed + 2)

    ours, theirs = rms_norm(x, weight, eps), formula(x, weight, eps)

    torch.testing.assert_close(ours, theirs)
    actual = torch.autograd.grad((ours * along).sum(), (x, weight))
    expected = torch.autograd.grad((theirs * along).sum(), (x, weight))
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize(("x_learns", "weight_learns"), [(True, False), (False, True)])
def test_rms_norm_gives_frozen_inputs_no_gradient(x_learns, weight_learns):
    x, weight = (
        random(3, 5).requires_grad_(x_learns),
        random(5, seed=1).requires_grad_(weight_learns),
    )
    learning = x if x_learns else weight

    rms_norm(x, weight, 0.1).square().sum().backward()

    expected = torch.autograd.grad(formula(x, weight, 0.1).square().sum(), learning)[0]
    torch.testing.assert_close(learning.grad, expected)
    assert (weight if x_learns else x).grad is None


def test_rms_norm_without_gradients_gives_the_same_values():
    x, weight = random(3, 5), random(5, seed=1).requires_grad_()
    expected = rms_norm(x, weight, 0.1)

    with torch.no_grad():
        silent = rms_norm(x, weight, 0.1)

    assert torch.equal(silent, expected.detach())
    assert not silent.requires_grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rms_norm_of_half_precision_is_computed_in_float32(dtype):
    x, weight = 10 * random(4, 64).to(dtype), random(64, seed=1).to(dtype)

    y = rms_norm(x, weight, 1e-6)

    # Two roundings, of the norm and of the product; the sum of squares is float32.
    unit = formula(x.float(), torch.ones(64), 1e-6).to(dtype)
    assert y.dtype == dtype
    torch.testing.assert_close(y, weight * unit, atol=0, rtol=torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rms_norm_gradients_have_the_dtype_of_the_input(dtype):
    x, weight = random(4, 64).to(dtype), random(64, seed=1).to(dtype)
    along = random(4, 64, seed=2)
    wide = [one.double().requires_grad_() for one in (x, weight)]
    narrow = [one.requires_grad_() for one in (x, weight)]

    rms_norm(*narrow, 1e-6).backward(along.to(dtype))
    formula(*wide, 1e-6).backward(along)

    for ours, exact in zip(narrow, wide, strict=True):
        assert ours.grad.dtype == dtype
        # The incoming gradient and the result are rounded.
        error = (ours.grad.double() - exact.grad).abs().max()
        assert error <= 4 * torch.finfo(dtype).eps * exact.grad.abs().max()


def rotation(angles):
    """Return a rotation, with equal angles in both halves of the features."""
    both = torch.tensor(angles, dtype=torch.float64).repeat(1, 2)[:, None]
    return torch.stack([both.cos(), both.sin()])


def test_rotate_by_hand():
    # (1, 0) turned by 60 degrees is (1/2, sqrt(3)/2); features 0 and 2 are a pair, 1 and 3 too.
    x = torch.tensor([[[1.0, 0.0, 0.0, 2.0]]], dtype=torch.float64)

    turned = rotate(x, rotation([[math.pi / 3, 0.0]]))

    expected = torch.tensor([[[0.5, 0.0, math.sqrt(3) / 2, 2.0]]], dtype=torch.float64)
    torch.testing.assert_close(turned, expected)


@pytest.mark.parametrize("graph", [True, False])
def test_dot_products_depend_on_the_difference_of_angles(graph):
    x, y = torch.randn(2, 1, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.set_grad_enabled(graph):
        near = rotate(x, rotation([[0.3, 0.7]])) * rotate(y, rotation([[0.1, 0.2]]))
        far = rotate(x, rotation([[1.3, 2.7]])) * rotate(y, rotation([[1.1, 2.2]]))

    torch.testing.assert_close(near.sum(-1), far.sum(-1))


def test_rotate_gradient_agrees_with_finite_differences():
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    angles = rotation([[0.3, 0.7], [2.0, -1.0]])

    assert torch.autograd.gradcheck(lambda given: rotate(given, angles), x.requires_grad_())
