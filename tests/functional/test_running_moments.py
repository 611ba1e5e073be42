"""Running moments: splits do not matter."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.running_moments import merged_moments

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
