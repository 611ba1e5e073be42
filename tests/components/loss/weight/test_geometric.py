import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.loss.weight.importance import GeometricFilter
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch


def rows(gaps):
    gap = torch.tensor(gaps, dtype=torch.float64)
    return make_batch(
        response_mask=~gap.isnan(),
        old_log_probs=gap,
        rollout_log_probs=torch.zeros_like(gap),
    )


def test_sequences_far_off_on_average_are_dropped():
    # Means 0.2 and 0.05: ratios 1.221 and 1.051.
    nan = float("nan")
    batch = rows([[0.5, -0.1, nan], [0.05, nan, nan], [nan, nan, nan]])

    weight = GeometricFilter(low=0.9, high=1.1)(batch)["token_weight"]

    assert weight.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_the_default_bounds_are_a_hundredth_around_1():
    # exp(+-0.009) is 1.0090 and 0.9910, exp(+-0.011) is 1.0111 and 0.9891.
    batch = rows([[0.009], [-0.009], [0.011], [-0.011]])

    assert GeometricFilter()(batch)["token_weight"].tolist() == [[1], [1], [0], [0]]


@given(st.floats(-0.3, 0.3), st.integers(1, 50))
def test_a_longer_answer_with_the_same_gap_is_treated_the_same(gap, length):
    short = GeometricFilter(low=0.9, high=1.1)(rows([[gap]]))["token_weight"][0, 0]
    long = GeometricFilter(low=0.9, high=1.1)(rows([[gap] * length]))["token_weight"][0]

    # A mean of equal numbers may round: not next to a bound.
    if min(abs(gap - 0.0953102), abs(gap + 0.1053605)) > 1e-6:
        assert long.tolist() == [short.item()] * length


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(ConfigError, match=r"low is 1\.5, above high=1\.01"):
        GeometricFilter(low=1.5)
