"""Running moments: splits do not matter."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.moments import merged_moments

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=8)


@given(VALUES, VALUES)
def test_one_batch_or_two_give_the_same_moments(first, second):
    zero = torch.zeros((), dtype=torch.float64)
    one, other = (torch.tensor(x, dtype=torch.float64) for x in (first, second))

    apart = merged_moments(*merged_moments(zero, zero, zero, one), other)

    both = torch.cat([one, other])
    whole = (torch.tensor(float(len(both))), both.mean(), both.var(correction=0) * len(both))
    for got, want in zip(apart, whole, strict=True):
        torch.testing.assert_close(got, want.double(), rtol=1e-9, atol=1e-7)


def test_by_hand_and_nothing_changes_nothing():
    # 1, 3, then 5, 11: means 2 and 8, squares 2 and 18; together mean 5, squares 16 + 4 + 0 + 36.
    seen = (torch.tensor(2.0), torch.tensor(2.0), torch.tensor(2.0))

    found = merged_moments(*seen, torch.tensor([5.0, 11.0]))

    assert [float(one) for one in found] == [4, 5, 56]
    assert merged_moments(*seen, torch.tensor([])) == seen
