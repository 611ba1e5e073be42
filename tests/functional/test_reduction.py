from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.reduction import fixed_length, sequence_mean, sequence_sum, token_mean

ALL = {
    "token_mean": token_mean,
    "sequence_mean": sequence_mean,
    "sequence_sum": sequence_sum,
    "fixed_length": partial(fixed_length, length=4),
}

# Rows of 3, 1 and 0 tokens with losses 1, 2, 3 and 4; 9 stands in the padding.
MASK = torch.tensor([[True, True, True, False], [True, False, False, False], [False] * 4])
LOSS = torch.tensor([[1.0, 2.0, 3.0, 9.0], [4.0, 9.0, 9.0, 9.0], [9.0] * 4])

BY_HAND = {
    "token_mean": 2.5,  # (1 + 2 + 3 + 4) / 4 tokens
    "sequence_sum": 5.0,  # (6 + 4) / 2 rows that have tokens
    "sequence_mean": 3.0,  # (6 / 3 + 4 / 1) / 2
    "fixed_length": 1.25,  # (6 + 4) / (2 rows x 4)
}


@pytest.mark.parametrize("name", ALL)
def test_reduction_weights_by_hand(name):
    assert (LOSS * ALL[name](MASK)).sum().item() == pytest.approx(BY_HAND[name])


masks = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=6).map(
    torch.tensor
)


@pytest.mark.parametrize("name", ALL)
@given(mask=masks)
def test_reduction_weights_are_0_outside_the_mask_and_positive_inside(name, mask):
    weight = ALL[name](mask)

    assert torch.equal(weight > 0, mask)
    assert bool(weight.isfinite().all())


@pytest.mark.parametrize("name", ["token_mean", "sequence_mean"])
@given(mask=masks)
def test_the_weights_of_a_mean_sum_to_1(name, mask):
    total = ALL[name](mask).sum().item()

    assert total == pytest.approx(1.0 if bool(mask.any()) else 0.0, abs=1e-6)


@given(mask=masks)
def test_sequence_sum_weights_rows_by_length(mask):
    shares = sequence_sum(mask).sum(1)
    lengths = mask.sum(1)

    torch.testing.assert_close(shares * (lengths > 0).sum(), lengths.float())


@pytest.mark.parametrize("name", ALL)
@given(mask=masks)
def test_reduction_weights_ignore_padding_and_empty_rows(name, mask):
    wide = torch.nn.functional.pad(mask, (0, 2, 0, 1))

    torch.testing.assert_close(ALL[name](wide)[:-1, :-2], ALL[name](mask))
