from tensordict import TensorDict

from components.advantage.group import GroupMean
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch() -> TensorDict:
    return make_batch(
        reward=[1.0, 0.0, 0.0, 0.5],
        reward_valid=[True, True, False, True],
        group_id=[5, 5, 5, 8],
        response_mask=[[False, True, True]] * 4,
    )


def test_every_token_of_the_response_has_the_advantage():
    # Group 5 has valid rewards 1 and 0; the third is invalid; group 8 is a group of one.
    advantage = GroupMean()(batch())["advantage"]

    assert advantage.tolist() == [[0, 0.5, 0.5], [0, -0.5, -0.5], [0, 0, 0], [0, 0, 0]]


def test_the_size_of_the_signal_is_recorded():
    with recording() as ledger:
        GroupMean()(batch())

    assert ledger.means() == {"advantage/abs": 0.25, "advantage/zero_fraction": 0.5}


def test_a_baseline_needs_two_answers():
    assert GroupMean.min_group_size == 2
