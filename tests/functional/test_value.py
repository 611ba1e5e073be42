import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nan

from rlcomp.errors import ShapeError
from rlcomp.functional.value import clipped_value_error, explained_variance, value_error

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
def test_one_token_by_hand(value, error, gradient):
    values = row(value).requires_grad_()

    found = clipped_value_error(values, row(0), row(1), clip=0.2)
    found.sum().backward()

    assert found.item() == pytest.approx(error)
    assert values.grad.item() == pytest.approx(gradient)


@given(real, real, real, st.floats(0.01, 2))
def test_the_clip_never_makes_the_error_smaller(value, old, returns, clip):
    v, o, g = row(value), row(old), row(returns)

    clipped = clipped_value_error(v, o, g, clip)

    assert bool((clipped >= value_error(v, g)).all())
    if abs(value - old) <= clip:
        torch.testing.assert_close(clipped, value_error(v, g))


@given(real, real, real)
def test_without_a_bound_it_is_the_plain_error(value, old, returns):
    v, o, g = row(value), row(old), row(returns)

    assert torch.equal(clipped_value_error(v, o, g, 1e9), value_error(v, g))


@given(st.lists(st.tuples(real, real), min_size=2, max_size=6), real, st.floats(0.1, 3))
def test_explained_variance_knows_neither_shift_nor_scale(pairs, shift, scale):
    value, returns = (row(*column) for column in zip(*pairs, strict=True))
    if float(returns.max() - returns.min()) < 0.1:
        return
    mask = torch.ones_like(value).bool()

    found = explained_variance(value * scale + shift, returns * scale, mask)

    torch.testing.assert_close(found, explained_variance(value, returns, mask))


def test_explained_variance_by_hand():
    # Returns 0, 2, 4 have variance 8/3; what is left over, 0, 1, 2, has 2/3. 1 - 1/4.
    value, returns = row(0, nan, 1, 2), row(0, 9, 2, 4)

    found = explained_variance(value, returns, torch.tensor([[True, False, True, True]]))

    assert found.item() == pytest.approx(0.75)


@pytest.mark.parametrize("mask", [[False, False], [True, False], [True, True]])
def test_returns_that_do_not_vary_leave_nothing_to_explain(mask):
    found = explained_variance(row(0.1, 0.3), row(0.7, 0.7), torch.tensor([mask]))

    assert found.isnan()


def test_different_shapes_are_refused():
    with pytest.raises(ShapeError, match=r"'returns' has shape \[1, 2\], but 'value' has \[1, 1\]"):
        value_error(row(1), row(1, 1))
    with pytest.raises(ShapeError, match=r"'old_value' has shape \[1, 2\], but 'value' has"):
        clipped_value_error(row(1), row(1, 1), row(1), 0.2)
