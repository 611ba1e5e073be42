import pytest
import torch

from components.shaping.length import SoftOverlong
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch(*lengths, reward=1.0, valid=None):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    rows = len(lengths)
    given = torch.full((rows,), reward, dtype=torch.float64)
    return make_batch(
        reward=given,
        rewards={"exact_match": given.clone()},
        reward_valid=[True] * rows if valid is None else valid,
        response_mask=mask,
    )


def test_the_last_tokens_cost_more_and_more():
    # Limit 8, buffer 4, factor 2: 2 / 4 a token above 4 tokens, at most 2.
    result = SoftOverlong(max_length=8, buffer=4, factor=2.0)(batch(4, 5, 8, 10))

    assert result["reward"].tolist() == [1.0, 0.5, -1.0, -1.0]


def test_tokens_of_tools_do_not_count():
    given = batch(8, 8)
    given["response_mask"][0, 2:5] = False  # 5 of 8 are the policy's

    assert SoftOverlong(max_length=8, buffer=4)(given)["reward"].tolist() == [0.75, 0.0]


def test_the_penalty_is_a_part_of_its_own_and_the_other_parts_stay():
    given = batch(8, 4)
    before = given["rewards"]

    with recording() as ledger:
        result = SoftOverlong(max_length=8, buffer=4)(given)

    assert result["rewards", "soft_overlong"].tolist() == [-1.0, 0.0]
    assert result["rewards", "exact_match"].tolist() == [1.0, 1.0]
    assert set(before.keys()) == {"exact_match"}
    assert ledger.means() == {"reward/soft_overlong": -0.5, "reward/shaped": 0.5}


def test_an_invalid_reward_stays_0_and_is_not_recorded():
    with recording() as ledger:
        result = SoftOverlong(max_length=8, buffer=4)(
            batch(8, 6, reward=float("nan"), valid=[False, False])
        )

    assert result["reward"].tolist() == [0.0, 0.0]
    assert result["rewards", "soft_overlong"].tolist() == [0.0, 0.0]
    assert ledger.means() == {}


def test_a_buffer_longer_than_the_limit_is_refused():
    with pytest.raises(ConfigError, match="buffer is 9 and max_length is 8"):
        SoftOverlong(max_length=8, buffer=9)


def test_a_buffer_as_long_as_the_limit_grows_from_the_first_token():
    result = SoftOverlong(max_length=8, buffer=8)(batch(2, 4, 8))

    assert result["reward"].tolist() == [0.75, 0.5, 0.0]
