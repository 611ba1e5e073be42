import pytest
import torch

from components.advantage.group import MaxRL
from rlcomp.errors import NumericalError
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch


def batch(*reward):
    """Groups of 4, 3 (one invalid) and 1; ragged."""
    mask = torch.tensor([[1, 1], [0, 1], [1, 1], [1, 0], [1, 1], [1, 1], [1, 0], [1, 1]]).bool()
    return make_batch(
        reward=reward,
        reward_valid=torch.tensor([1, 1, 1, 1, 1, 0, 1, 1]).bool(),
        group_id=[3, 3, 3, 3, 0, 0, 0, 9],
        response_mask=mask,
    )


def test_it_keeps_the_contract():
    check_component(MaxRL())


def test_it_is_the_reward_less_the_mean_over_the_mean():
    # 1 0 0 0: mean 1/4, 1 / (1/4) - 1 = 3 and -1. 0.5 and 1.5: mean 1. The last is alone.
    advantage = MaxRL()(batch(1.0, 0.0, 0.0, 0.0, 0.5, 7.0, 1.5, 2.0))["advantage"]

    want = [[3, 3], [0, -1], [-1, -1], [-1, 0], [-0.5, -0.5], [0, 0], [0.5, 0], [0, 0]]
    assert advantage.tolist() == want


def test_a_group_without_success_teaches_nothing():
    advantage = MaxRL()(batch(0.0, 0.0, 0.0, 0.0, 0.0, 7.0, 0.0, 0.0))["advantage"]

    assert not advantage.any()


def test_the_mean_of_the_positive_advantages_is_recorded():
    with recording() as ledger:
        MaxRL()(batch(1.0, 0.0, 0.0, 0.0, 0.5, 7.0, 1.5, 2.0))

    assert ledger.means()["advantage/positive"] == pytest.approx((3 + 0.5) / 2)
    # The mean of the other group is not below half of its best.
    assert ledger.means()["advantage/rare"] == 3


def test_half_of_the_best_reward_on_average_is_not_rare():
    # 1 0 0 0: a mean of 1/4, advantage 3. 0 and 3: a mean of half of 3, advantage 1.
    with recording() as ledger:
        MaxRL()(batch(1.0, 0.0, 0.0, 0.0, 0.0, 7.0, 3.0, 2.0))

    assert ledger.means()["advantage/positive"] == 2
    assert ledger.means()["advantage/rare"] == 3


def test_a_negative_reward_is_refused_with_its_row_and_a_remedy():
    with pytest.raises(NumericalError, match=r"row 2 is -0.5: MaxRL .* advantage=group_mean"):
        MaxRL()(batch(1.0, 0.0, -0.5, 0.0, 0.5, 7.0, 1.5, 2.0))


def test_an_invalid_reward_may_be_negative():
    rows = batch(1.0, 0.0, 0.0, 0.0, 0.5, -7.0, 1.5, 2.0)

    assert MaxRL()(rows)["advantage"][5].tolist() == [0, 0]
