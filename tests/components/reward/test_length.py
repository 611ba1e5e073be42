import pytest
import torch

from components.reward.surface import Length
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch


def rows():
    """Responses of 0, 1, 4 and 5 tokens; one has a hole."""
    mask = torch.zeros(4, 7, dtype=torch.bool)
    mask[1, 1], mask[2, 2:7], mask[3, 1:6] = True, True, True
    mask[2, 4] = False
    return make_batch(response_mask=mask)


def test_it_keeps_the_contract():
    check_component(Length(target=4.0))


def test_it_grows_with_the_tokens_between_its_bounds():
    with recording() as ledger:
        result = Length(target=4, low=0.125, high=0.75)(rows())

    # 0, 1/4, 1 and 5/4.
    assert result["reward"].tolist() == [0.125, 0.25, 0.75, 0.75]
    assert result["rewards"]["length"].tolist() == [0.125, 0.25, 0.75, 0.75]
    assert result["correct"].tolist() == [False, False, True, True]
    assert result["reward_valid"].tolist() == [True] * 4
    # (1/8 + 1/4 + 3/4 + 3/4) / 4; how long says nothing of right and wrong.
    assert ledger.means() == {
        "reward/mean": 0.46875,
        "reward/invalid_fraction": 0.0,
    }


def test_bounds_that_leave_nothing_are_refused():
    with pytest.raises(ConfigError, match="low is 1: must be below high, 1"):
        Length(target=4, low=1)
