import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import NumericalError
from rlcomp.functional.importance import (
    aggregate_rows,
    level_log_weight,
    normaliser,
    off_policy_tokens,
    sampler_gap,
    truncated_weight,
    upper_quantile,
    within_bounds,
)

NAN = float("nan")


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


def ones(*shape):
    return torch.ones(*shape, dtype=torch.bool)


def test_a_sampler_without_a_record_has_no_gap():
    # Outside the mask anything may stand.
    gap = sampler_gap(row(-1, -2, NAN), row(-1.5, NAN, NAN), torch.tensor([[True, True, False]]))

    assert gap.tolist() == [[0.5, 0.0, 0.0]]


def test_an_infinite_record_is_an_error():
    with pytest.raises(NumericalError, match=r"'old_log_probs' is -inf at \[0, 1\]"):
        sampler_gap(row(-1, -2), row(-1, -math.inf), ones(1, 2))


def test_levels_by_hand():
    # Gaps 0.1 and 0.3, a hole between: sum 0.4, mean over 2 tokens 0.2.
    gap, mask = row(0.1, 0.0, 0.3), torch.tensor([[True, False, True]])

    assert level_log_weight(gap, mask, "token").tolist() == [[0.1, 0.0, 0.3]]
    torch.testing.assert_close(level_log_weight(gap, mask, "sequence"), row(0.4, 0.4, 0.4))
    torch.testing.assert_close(level_log_weight(gap, mask, "sequence_mean"), row(0.2, 0.2, 0.2))


def test_a_long_sequence_s_weight_does_not_overflow():
    gap = torch.full((1, 4000), 1.0)

    assert level_log_weight(gap, ones(1, 4000), "sequence").exp().isfinite().all()


@pytest.mark.parametrize(("level", "mean"), [("token", 2.0), ("sequence", 2.5)])
def test_the_mean_weight_counts_tokens_or_sequences(level, mean):
    # Weights 1, 1 | 4 | empty: (1 + 1 + 4) / 3 tokens, (1 + 4) / 2 sequences. First tokens stand
    # in any column.
    weight = torch.tensor([[1.0, 1.0], [4.0, 4.0], [9.0, 9.0]])
    mask = torch.tensor([[True, True], [False, True], [False, False]])

    assert normaliser(weight, mask, level).item() == mean


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=8), st.floats(0.1, 5))
def test_truncated_weights_stay_below_the_cap_and_cover_the_masked_ones(gaps, cap):
    gap = row(*gaps)

    truncated, kept = truncated_weight(gap, 0.0, cap), within_bounds(gap, 0.0, cap)

    assert bool((truncated <= cap).all())
    assert bool((truncated > 0)[kept].all())


@given(st.floats(0, 10), st.floats(0, 3), st.floats(-2, 2))
def test_good_answers_are_never_dropped(advantage, delta, gap):
    drop = off_policy_tokens(row(-1.0 - gap), row(-1.0), row(advantage), ones(1, 1), delta)

    assert not drop.any()


def test_the_quantile_is_interpolated():
    # rank (1 - 0.2) * 4 = 3.2 of 0 10 20 30 40: 32. The token outside is the largest.
    values, mask = row(40, 0, 99, 10, 30, 20), torch.tensor([[True, True, False] + 3 * [True]])

    assert upper_quantile(values, mask, 0.2).item() == pytest.approx(32.0)


def test_a_quantile_of_more_than_16_million_tokens_is_found():
    size = 2**24 + 2
    values = torch.zeros(1, size)
    values[0, : size // 4] = 1.0

    assert upper_quantile(values, ones(1, size), 0.2).item() == 1.0


def test_a_quantile_of_nothing_is_0():
    assert upper_quantile(row(1.0), ~ones(1, 1), 0.2).item() == 0.0


def test_aggregates_by_hand():
    # 1 and -3 in one row (a hole between), none in the other.
    values = torch.tensor([[1.0, 0.0, -3.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, False, True], [False, False, False]])

    result = {
        name: aggregate_rows(values, mask, name)[:, 0].tolist() for name in ("sum", "mean", "max")
    }

    assert result == {"sum": [-2.0, 0.0], "mean": [-1.0, 0.0], "max": [1.0, 0.0]}
