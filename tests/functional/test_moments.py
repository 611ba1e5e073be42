import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from rlcomp.errors import NumericalError
from rlcomp.functional.moments import merged_moments, whiten

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=8)


@given(VALUES, VALUES)
def test_merged_moments_of_one_batch_or_two_are_equal(first, second):
    zero = torch.zeros((), dtype=torch.float64)
    one, other = (torch.tensor(x, dtype=torch.float64) for x in (first, second))

    apart = merged_moments(*merged_moments(zero, zero, zero, one), other)

    both = torch.cat([one, other])
    whole = (torch.tensor(float(len(both))), both.mean(), both.var(correction=0) * len(both))
    for result, expected in zip(apart, whole, strict=True):
        torch.testing.assert_close(result, expected.double(), rtol=1e-9, atol=1e-7)


def test_merged_moments_by_hand():
    # 1, 3, then 5, 11: means 2 and 8, squares 2 and 18; together mean 5, squares 16 + 4 + 0 + 36.
    seen = (torch.tensor(2.0), torch.tensor(2.0), torch.tensor(2.0))

    result = merged_moments(*seen, torch.tensor([5.0, 11.0]))

    assert [float(one) for one in result] == [4, 5, 56]
    assert merged_moments(*seen, torch.tensor([])) == seen


def ragged(seed):
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(4, 6, dtype=torch.float64, generator=draw)
    mask = torch.rand(4, 6, generator=draw) < 0.6
    mask[2] = False
    return values, mask


def test_whiten_by_hand():
    # 1 and 3: mean 2, unbiased variance 2, so -1 / sqrt(2) and 1 / sqrt(2); 9 does not count.
    values, mask = torch.tensor([[1.0, 9.0, 3.0]]), torch.tensor([[True, False, True]])

    torch.testing.assert_close(whiten(values, mask), torch.tensor([[-(0.5**0.5), 0, 0.5**0.5]]))
    shifted = torch.tensor([[2 - 0.5**0.5, 0, 2 + 0.5**0.5]])
    torch.testing.assert_close(whiten(values, mask, shift_mean=False), shifted)


@given(st.integers(0, 10_000))
def test_whitened_values_have_mean_0_and_variance_1(seed):
    values, mask = ragged(seed)
    assume(mask.sum() >= 2 and values[mask].var() > 0.01)

    kept = whiten(values, mask)[mask]

    assert kept.mean().item() == pytest.approx(0, abs=1e-12)
    assert kept.var().item() == pytest.approx(1, abs=1e-4)


@given(st.integers(0, 10_000), st.sampled_from([-2.0, 0.5, 3.0]), st.integers(-5, 5))
def test_whiten_ignores_shift_and_scale(seed, scale, shift):
    values, mask = ragged(seed)
    assume(mask.sum() >= 2 and values[mask].var() > 0.01)

    moved = whiten(scale * values + shift, mask)

    # The 1e-8 beside a variance of 0.0025 and more.
    sign = 1 if scale > 0 else -1
    torch.testing.assert_close(moved, sign * whiten(values, mask), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("value", "count"), [(0.35, 7), (0.7, 12), (0.1, 8), (5.0, 1)])
def test_whiten_of_equal_values_is_0(value, count):
    values = torch.full((1, count), value)
    mask = torch.ones(1, count)

    assert whiten(values, mask).tolist() == [[0.0] * count]
    assert torch.equal(whiten(values, mask, shift_mean=False), values)


def test_whiten_of_an_empty_mask_is_0():
    values = torch.full((2, 3), float("nan"))

    assert whiten(values, torch.zeros(2, 3)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("shift_mean", [True, False])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_whiten_ignores_values_outside_the_mask(bad, shift_mean):
    values, mask = ragged(0)
    results = []
    for filling in (0.0, bad):
        given_ = torch.where(mask, values, filling).requires_grad_()
        result = whiten(given_, mask, shift_mean)
        result.pow(3).sum().backward()
        results.append((result, given_.grad))

    for clean, corrupted in zip(*results, strict=True):
        assert torch.equal(clean, corrupted)
        assert not clean[~mask].any()


def test_whiten_of_an_infinite_value_raises():
    with pytest.raises(NumericalError, match=r"'values' is inf at \[0, 1\]"):
        whiten(torch.tensor([[1.0, float("inf")]]), torch.ones(1, 2))
