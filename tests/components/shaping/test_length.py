"""Shaping by length."""

import math

import pytest
import torch
from tensordict import TensorDict

from components.shaping.length import (
    CosineLength,
    KimiLength,
    L1Exact,
    L1Max,
    SoftOverlong,
    StopProperly,
)
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import graded_answers, make_batch


def test_the_worked_example():
    # L_max 4. Right: from 2 to 1, wrong: from -10 to 0; cos(pi/4) at 1 token, cos(3 pi/4) at 3.
    lengths = [1, 3, 2, 4, 4, 2]
    right = torch.tensor([True, False, True, True, False, True])
    entries = {
        "reward": right.double(),
        "rewards": make_batch(exact_match=right.double()),
        "reward_valid": torch.tensor([True, True, True, True, True, False]),
        "correct": right,
        "response_mask": torch.arange(5) < torch.tensor(lengths)[:, None],
    }
    half = math.sqrt(0.5)

    result = CosineLength(max_length=4, exceeded=-3.0)(TensorDict(entries, batch_size=[6]))

    expected = [1 + (1 + half) / 2, -10 * (1 - half) / 2, 1.5, -3.0, -3.0, 0.0]
    assert result["reward"].tolist() == pytest.approx(expected)
    assert torch.equal(result["rewards", "cosine_length"], result["reward"])
    assert result["rewards", "exact_match"].tolist() == right.double().tolist()


def test_the_rewards_of_both_ends_are_arguments():
    shaping = CosineLength(
        max_length=10**6, right_start=5.0, right_end=4.0, wrong_start=-1.0, wrong_end=-2.0
    )
    right = torch.tensor([True, False])
    entries = {
        "reward": right.float(),
        "rewards": make_batch(right=right.float()),
        "reward_valid": torch.ones(2, dtype=torch.bool),
        "correct": right,
        "response_mask": torch.ones(2, 1, dtype=torch.bool),
    }

    result = shaping(TensorDict(entries, batch_size=[2]))

    assert result["reward"].tolist() == pytest.approx([5.0, -1.0], abs=1e-5)


def test_short_right_answers_gain_and_wrong_ones_never_do():
    # Lengths 2, 4, 6: lambda 0.5, 0, -0.5; the wrong one of length 2 gets min(0, 0.5).
    given = graded_answers([2, 4, 6, 2], [True, True, True, False], [0, 0, 0, 0])

    result = KimiLength(weight=1.0, warm_up=0.0)(given)

    assert result["reward"].tolist() == [1.5, 1.0, 0.5, 0.0]
    assert result["rewards", "kimi_length"].tolist() == [0.5, 0.0, -0.5, 0.0]


@pytest.mark.parametrize(("at", "share"), [(0.1, 0.25), (0.4, 1.0), (0.9, 1.0)])
def test_the_weight_grows_over_the_first_part_of_the_phase(at, share):
    with recording(progress=at):
        result = KimiLength(weight=0.8, warm_up=0.4)(graded_answers([2, 6], [True, True], [5, 5]))

    assert result["reward"].tolist() == pytest.approx([1 + 0.4 * share, 1 - 0.4 * share])


def test_groups_do_not_see_one_another():
    given = graded_answers([2, 4, 40, 80], [True] * 4, [1, 1, 0, 0])

    result = KimiLength(weight=1.0, warm_up=0.0)(given)

    assert result["reward"].tolist() == [1.5, 0.5, 1.5, 0.5]


def test_groups_of_equal_lengths_and_invalid_rows_are_left_alone():
    given = graded_answers([3, 3, 9], [True, True, True], [0, 0, 0], valid=[True, True, False])

    result = KimiLength(weight=1.0, warm_up=0.0)(given)

    assert result["reward"].tolist() == [1.0, 1.0, 0.0]


def test_exact_penalises_every_token_off_the_target():
    given = graded_answers([3, 5, 9, 9], [True, True, True, False])

    result = L1Exact(target_length=5, alpha=0.1)(given)

    assert result["reward"].tolist() == pytest.approx([0.8, 1.0, 0.6, -0.4])
    assert torch.equal(result["rewards", "l1_exact"], result["reward"])


def test_an_invalid_row_stays_at_0_with_l1_exact():
    given = graded_answers([5, 5], [True, True], valid=[True, False])

    assert L1Exact(target_length=5)(given)["reward"][1].item() == 0.0


def test_max_rewards_right_answers_below_the_target():
    # 0.1 a token below 5, 0.5 at it, clipped to [0, 1].
    given = graded_answers([1, 5, 8, 11, 1], [True, True, True, True, False])

    result = L1Max(target_length=5, alpha=0.1, delta=0.5)(given)

    assert result["reward"].tolist() == pytest.approx([0.9, 0.5, 0.2, 0.0, 0.0])
    assert torch.equal(result["rewards", "l1_max"], result["reward"])


def test_max_has_defaults_of_one_half_and_3e_4_per_token():
    result = L1Max(target_length=5)(graded_answers([1, 5, 8], [True, True, True]))

    # 4 tokens saved, none, 3 too many.
    assert result["reward"].tolist() == pytest.approx([0.5012, 0.5, 0.4991])


def test_an_invalid_row_stays_at_0_with_l1_max():
    given = graded_answers([5, 5], [True, True], valid=[True, False])

    assert L1Max(target_length=5)(given)["reward"][1].item() == 0.0


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


def truncated_batch():
    reward = torch.tensor([1.0, 1.0, -1.0, 1.0])
    return make_batch(
        reward=reward,
        rewards={"exact_match": reward.clone()},
        reward_valid=[True, True, True, False],
        truncated=[True, False, True, True],
    )


def test_a_truncated_answer_keeps_a_share_of_its_reward():
    result = StopProperly(coef=0.25)(truncated_batch())

    assert result["reward"].tolist() == [0.25, 1.0, -0.25, 0.0]
    assert result["rewards", "stop_properly"].tolist() == [-0.75, 0.0, 0.75, 0.0]


def test_below_0_the_coefficient_is_the_reward():
    assert StopProperly(coef=-0.5)(truncated_batch())["reward"].tolist() == [-0.5, 1.0, -0.5, 0.0]


def test_a_coefficient_above_1_is_refused():
    with pytest.raises(ConfigError, match=r"coef is 1.5: must be at most 1"):
        StopProperly(coef=1.5)
