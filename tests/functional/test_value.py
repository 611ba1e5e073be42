import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nan

from rlcomp.errors import ShapeError
from rlcomp.functional.value import (
    clipped_value_error,
    draw_by_probability,
    explained_variance,
    importance_weight,
    priority_probability,
    value_error,
)

real = st.floats(-3, 3)


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


@pytest.mark.parametrize(
    ("value", "error", "gradient"),
    [
        # The critic said 0, the return is 1, the clip 0.2.
        # Inside: (0.1 - 1)^2 / 2, gradient 0.1 - 1.
        (0.1, 0.405, -0.9),
        # Moved towards the return, past the bound: the clipped one is further off, (0.2 - 1)^2 / 2,
        # and there the gradient is 0.
        (0.5, 0.32, 0.0),
        # Moved away, past the bound: the value itself is further off, (-0.5 - 1)^2 / 2.
        (-0.5, 1.125, -1.5),
        # Past the return by more than the bound is short of it: (3 - 1)^2 / 2, pulled back.
        (3.0, 2.0, 2.0),
    ],
)
def test_value_errors_by_hand(value, error, gradient):
    values = row(value).requires_grad_()

    result = clipped_value_error(values, row(0), row(1), clip=0.2)
    result.sum().backward()

    assert result.item() == pytest.approx(error)
    assert values.grad.item() == pytest.approx(gradient)


@given(real, real, real, st.floats(0.01, 2))
def test_the_clip_never_lowers_the_value_error(value, old, returns, clip):
    v, o, g = row(value), row(old), row(returns)

    clipped = clipped_value_error(v, o, g, clip)

    assert bool((clipped >= value_error(v, g)).all())
    if abs(value - old) <= clip:
        torch.testing.assert_close(clipped, value_error(v, g))


def test_no_gradient_reaches_the_old_value_or_the_returns():
    value, old, returns = (torch.tensor([[x]], requires_grad=True) for x in (1.0, 0.0, 2.0))
    # V is 1, the clipped value is old + 0.2; its error is the larger one.
    clipped_value_error(value, old, returns, clip=0.2).sum().backward()

    assert value.grad.tolist() == [[0.0]]
    assert (old.grad, returns.grad) == (None, None)


@given(real, real, real)
def test_clipped_value_error_without_bound_is_the_value_error(value, old, returns):
    v, o, g = row(value), row(old), row(returns)

    assert torch.equal(clipped_value_error(v, o, g, 1e9), value_error(v, g))


@given(st.lists(st.tuples(real, real), min_size=2, max_size=6), real, st.floats(0.1, 3))
def test_explained_variance_ignores_shift_and_scale(pairs, shift, scale):
    value, returns = (row(*column) for column in zip(*pairs, strict=True))
    if float(returns.max() - returns.min()) < 0.1:
        return
    mask = torch.ones_like(value).bool()

    result = explained_variance(value * scale + shift, returns * scale, mask)

    torch.testing.assert_close(result, explained_variance(value, returns, mask))


def test_explained_variance_by_hand():
    # Returns 0, 2, 4 have variance 8/3; what is left over, 0, 1, 2, has 2/3. 1 - 1/4.
    value, returns = row(0, nan, 1, 2), row(0, 9, 2, 4)

    result = explained_variance(value, returns, torch.tensor([[True, False, True, True]]))

    assert result.item() == pytest.approx(0.75)


@pytest.mark.parametrize("mask", [[False, False], [True, False], [True, True]])
def test_explained_variance_of_equal_returns_is_nan(mask):
    result = explained_variance(row(0.1, 0.3), row(0.7, 0.7), torch.tensor([mask]))

    assert result.isnan()


def test_value_errors_of_different_shapes_raise():
    with pytest.raises(ShapeError, match=r"'returns' has shape \[1, 2\], but 'value' has \[1, 1\]"):
        value_error(row(1), row(1, 1))
    with pytest.raises(ShapeError, match=r"'old_value' has shape \[1, 2\], but 'value' has"):
        clipped_value_error(row(1), row(1, 1), row(1), 0.2)


def test_priority_probability_by_hand():
    priority = torch.tensor([1.0, 4.0, 16.0])

    # Roots 1, 2, 4 of 7; alpha 0 is uniform.
    expected = torch.tensor([1 / 7, 2 / 7, 4 / 7], dtype=torch.float64)
    torch.testing.assert_close(priority_probability(priority, 0.5), expected)
    assert priority_probability(priority, 0.0).tolist() == pytest.approx([1 / 3] * 3)


def test_importance_weight_by_hand():
    probability = torch.tensor([0.5, 0.25, 0.125])

    # (4 P)^-1 = .5, 1, 2, over the greatest; beta 0 weighs all the same.
    assert importance_weight(probability, 4, 1.0).tolist() == [0.25, 0.5, 1.0]
    assert importance_weight(probability, 4, 0.0).tolist() == [1.0, 1.0, 1.0]
    assert importance_weight(probability, 4, 0.5).tolist() == pytest.approx([0.5, 0.5**0.5, 1.0])


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20), st.floats(0, 1))
def test_importance_weight_corrects_the_mean(priority, alpha):
    probability = priority_probability(torch.tensor(priority), alpha)
    values = torch.arange(float(len(priority))).double()

    weight = importance_weight(probability, len(priority), 1.0).double()
    mean = (probability * weight * values).sum() / (probability * weight).sum()

    assert float(mean) == pytest.approx(float(values.mean()), rel=1e-5, abs=1e-5)


def test_rows_are_drawn_by_their_probability():
    probability = torch.tensor([0.1, 0.0, 0.6, 0.3])

    drawn = draw_by_probability(probability, (torch.arange(1000) + 0.5) / 1000)

    assert torch.bincount(drawn, minlength=4).tolist() == [100, 0, 600, 300]


def test_the_largest_draw_is_the_last_row():
    largest = torch.tensor([1 - 2**-53], dtype=torch.float64)

    assert draw_by_probability(torch.tensor([0.3, 0.7, 0.0]), largest).tolist() == [1]
    assert draw_by_probability(torch.full((3,), 1 / 3), torch.tensor([1 - 2**-24])).tolist() == [2]
