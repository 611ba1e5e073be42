import pytest
import torch

from components.loss.weight.importance import MaskedWeight
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch():
    # Ratios 1, 0.25, 8; their geometric mean is 2^(1/3).
    return make_batch(
        response_mask=[[True, True, True, False]],
        old_log_probs=torch.tensor([[1.0, 0.25, 8.0, 1.0]]).log(),
        rollout_log_probs=[[0.0, 0.0, 0.0, float("nan")]],
    )


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("token", [[1.0, 0.0, 0.0, 0.0]]),
        ("sequence", [[2.0, 2.0, 2.0, 0.0]]),
        ("sequence_mean", [[1.259921, 1.259921, 1.259921, 0.0]]),
    ],
)
def test_ratios_outside_the_bounds_weigh_0(level, expected):
    weight = MaskedWeight(level=level, low=0.5, high=5.0)(batch())["token_weight"]

    torch.testing.assert_close(weight, torch.tensor(expected))


def test_a_sequence_is_dropped_whole():
    weight = MaskedWeight(level="sequence", low=0.0, high=1.9)(batch())["token_weight"]

    assert weight.tolist() == [[0.0, 0.0, 0.0, 0.0]]


def test_the_dropped_share_is_recorded():
    with recording() as ledger:
        MaskedWeight(low=0.5, high=5.0)(batch())

    # One weight of 1 among three.
    third = pytest.approx(1 / 3)
    assert ledger.means() == {
        "weight/mean": third,
        "weight/second_moment": third,
        "weight/dropped_masked": pytest.approx(2 / 3),
    }


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(ConfigError, match=r"low is 2\.0, above high=1\.0"):
        MaskedWeight(low=2.0, high=1.0)
