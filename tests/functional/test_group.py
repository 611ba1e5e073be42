import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import NumericalError
from rlcomp.functional.best_of import pass_at_k_training_advantage, pkpo_advantage
from rlcomp.functional.group import (
    gdpo_advantage,
    gpg_advantage,
    group_batch_standardised,
    group_centred,
    group_standardised,
    leave_one_out,
    length_weighted,
    mean_normalised,
)

ONE_GROUP = torch.zeros(5, dtype=torch.int64)
ALL = torch.ones(5, dtype=torch.bool)


# What an answer is worth, from rewards, groups and which of them are valid.
ESTIMATORS = {
    "centred": group_centred,
    "standardised": lambda *rows: group_standardised(*rows, 1e-6),
    "batch": lambda *rows: group_batch_standardised(*rows, 1e-4),
    "leave_one_out": leave_one_out,
    "length_weighted": lambda r, g, v: length_weighted(r, torch.arange(len(r)) % 3 + 1, g, v),
    "best": lambda *rows: pkpo_advantage(*rows, None, 1e-6),
    "best of 2": lambda *rows: pkpo_advantage(*rows, 2, 1e-6),
    "subsets of 2": lambda *rows: pass_at_k_training_advantage(*rows, 2),
    "signal": gpg_advantage,
    "decoupled": lambda r, g, v: gdpo_advantage(
        {"r": r, "square": r**2}, {"r": 1.0, "square": 0.5}, g, v, 1e-4
    ),
}
# Those in whose sum over a group every answer weighs the same and all of them count.
SUM_TO_0 = ["centred", "standardised", "batch", "leave_one_out", "signal", "decoupled"]


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_group_centred_by_hand():
    # mean 2/5: right ones get 1 - 0.4, wrong ones 0 - 0.4.
    advantage = group_centred(double(1, 0, 0, 1, 0), ONE_GROUP, ALL)

    torch.testing.assert_close(advantage, double(0.6, -0.4, -0.4, 0.6, -0.4))


def test_group_standardised_by_hand():
    # variance (2 x 0.36 + 3 x 0.16) / 4 = 0.3; 0.6 / sqrt(0.3) = 1.0954451, -0.4 / sqrt(0.3).
    advantage = group_standardised(double(1, 0, 0, 1, 0), ONE_GROUP, ALL, 1e-6)

    expected = double(1.095443, -0.730295, -0.730295, 1.095443, -0.730295)
    torch.testing.assert_close(advantage, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("right", "answers"), [(1, 4), (2, 5), (7, 8)])
def test_group_standardised_of_binary_rewards_has_the_closed_form(right, answers):
    # A+ = sqrt((n-k)/k) sqrt((n-1)/n), A- = -sqrt(k/(n-k)) sqrt((n-1)/n).
    reward = (torch.arange(answers) < right).double()
    valid = torch.ones(answers, dtype=torch.bool)

    advantage = group_standardised(reward, torch.zeros_like(valid).long(), valid, 1e-12)

    shrink = ((answers - 1) / answers) ** 0.5
    plus = ((answers - right) / right) ** 0.5 * shrink
    minus = -((right / (answers - right)) ** 0.5) * shrink
    assert advantage[0].item() == pytest.approx(plus, rel=1e-6)
    assert advantage[-1].item() == pytest.approx(minus, rel=1e-6)


@pytest.mark.parametrize(("value", "answers"), [(0.35, 7), (0.7, 7), (0.7, 12), (0.1, 8), (1e6, 3)])
def test_equal_rewards_give_exactly_0(value, answers):
    reward = torch.full((answers,), value)
    group = torch.zeros(answers, dtype=torch.int64)
    valid = torch.ones(answers, dtype=torch.bool)

    for estimator in ESTIMATORS.values():
        assert estimator(reward, group, valid).tolist() == [0.0] * answers


def test_rewards_within_rounding_give_0():
    reward = double(0.1 + 0.2, 0.3, 0.3)
    assert reward[0] != reward[1]

    assert not group_standardised(reward, torch.zeros(3).long(), torch.ones(3).bool(), 1e-12).any()


def test_one_different_reward_gives_an_advantage():
    # n = 8, one apart: +(n-1)/sqrt(n) = 2.4749, the others -1/sqrt(n) = -0.3536.
    reward = torch.tensor([0.35] * 7 + [0.95])

    advantage = group_standardised(reward, torch.zeros(8).long(), torch.ones(8).bool(), 1e-6)

    assert advantage[-1].item() == pytest.approx(7 / 8**0.5, rel=1e-4)
    assert advantage[0].item() == pytest.approx(-1 / 8**0.5, rel=1e-4)


def test_a_group_of_one_has_advantage_0():
    group = torch.tensor([4, 9, 9])
    reward = double(5, 0, 1)
    valid = torch.ones(3, dtype=torch.bool)

    assert group_centred(reward, group, valid).tolist() == [0.0, -0.5, 0.5]
    assert group_standardised(reward, group, valid, 1e-6)[0].item() == 0.0


def test_an_invalid_row_has_advantage_0():
    # Without the third: mean of (1, 0) is 0.5.
    valid = torch.tensor([True, True, False])

    advantage = group_centred(double(1, 0, float("nan")), torch.zeros(3).long(), valid)

    assert advantage.tolist() == [0.5, -0.5, 0.0]


def test_a_group_with_one_valid_row_has_advantage_0():
    valid = torch.tensor([True, False])

    assert group_centred(double(1, 0), torch.zeros(2).long(), valid).tolist() == [0.0, 0.0]


def test_no_rows_give_no_advantages():
    none = torch.zeros(0)

    assert group_centred(none, none.long(), none.bool()).shape == (0,)


# Rewards on a grid, so that two are either equal or clearly apart.
rewards = st.lists(st.integers(-20, 20).map(lambda n: n / 4), min_size=2, max_size=12)
groups = st.lists(st.integers(0, 3), min_size=12, max_size=12)


def batch(values, ids):
    reward = torch.tensor(values, dtype=torch.float64)
    return reward, torch.tensor(ids[: len(values)]), torch.ones(len(values), dtype=torch.bool)


@given(rewards, groups)
def test_advantages_of_a_group_sum_to_0(values, ids):
    reward, group, valid = batch(values, ids)

    for name in SUM_TO_0:
        advantage = ESTIMATORS[name](reward, group, valid)
        for label in set(group.tolist()):
            assert advantage[group == label].sum().item() == pytest.approx(0, abs=1e-9)


@given(rewards, groups)
def test_length_weighted_advantages_sum_to_0(values, ids):
    reward, group, valid = batch(values, ids)
    length = torch.arange(len(values)) % 4 + 1

    advantage = length * length_weighted(reward, length, group, valid)

    for label in set(group.tolist()):
        assert advantage[group == label].sum().item() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - {"signal", "decoupled"}))
@given(rewards, groups, st.integers(-8, 8))
def test_advantages_ignore_a_constant_on_the_rewards(name, values, ids, shift):
    reward, group, valid = batch(values, ids)

    shifted = ESTIMATORS[name](reward + shift, group, valid)

    torch.testing.assert_close(shifted, ESTIMATORS[name](reward, group, valid))


@given(rewards, groups, st.sampled_from([-3.0, -1.0, 0.5, 2.0]))
def test_advantages_scale_with_rewards_or_are_invariant(values, ids, scale):
    reward, group, valid = batch(values, ids)
    length = torch.arange(len(values)) % 4 + 1

    for kept in (group_centred, leave_one_out, gpg_advantage):
        torch.testing.assert_close(
            kept(scale * reward, group, valid), scale * kept(reward, group, valid)
        )
    torch.testing.assert_close(
        length_weighted(scale * reward, length, group, valid),
        scale * length_weighted(reward, length, group, valid),
    )
    for taken_out in (group_standardised, group_batch_standardised):
        torch.testing.assert_close(
            taken_out(scale * reward, group, valid, 1e-12),
            taken_out(reward, group, valid, 1e-12) * (1 if scale > 0 else -1),
        )


@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - {"length_weighted"}))
@given(rewards, groups, st.randoms(use_true_random=False))
def test_advantages_ignore_labels_and_order_of_groups(name, values, ids, random):
    reward, group, valid = batch(values, ids)
    order = list(range(len(values)))
    random.shuffle(order)
    labels = torch.tensor([17, 3, 99, -2])

    moved = ESTIMATORS[name](reward[order], labels[group][order], valid)

    torch.testing.assert_close(moved, ESTIMATORS[name](reward, group, valid)[order])


@pytest.mark.parametrize("name", ESTIMATORS)
@given(rewards, groups, st.lists(st.booleans(), min_size=12, max_size=12))
def test_invalid_rows_count_as_absent_rows(name, values, ids, flags):
    reward, group, _ = batch(values, ids)
    valid = torch.tensor(flags[: len(values)])
    corrupted = torch.where(valid, reward, float("nan"))
    if name == "length_weighted":
        length = torch.arange(len(values)) + 1
        advantage = length_weighted(corrupted, length, group, valid)
        kept = length_weighted(reward[valid], length[valid], group[valid], valid[valid])
    else:
        advantage = ESTIMATORS[name](corrupted, group, valid)
        kept = ESTIMATORS[name](reward[valid], group[valid], valid[valid])

    torch.testing.assert_close(advantage[valid], kept)
    assert advantage[~valid].tolist() == [0.0] * int((~valid).sum())


@given(rewards, groups)
def test_leave_one_out_is_the_centred_reward_times_n_over_n_minus_1(values, ids):
    reward, group, valid = batch(values, ids)
    n = (group[:, None] == group[None, :]).sum(1)

    expected = group_centred(reward, group, valid) * n / (n - 1).clamp(min=1)

    torch.testing.assert_close(leave_one_out(reward, group, valid), expected)


def test_leave_one_out_by_hand():
    # A right answer has one right one among four others, 1 - 1/4; a wrong one two, 0 - 2/4.
    advantage = leave_one_out(double(1, 0, 0, 1, 0), ONE_GROUP, ALL)

    assert advantage.tolist() == [0.75, -0.5, -0.5, 0.75, -0.5]


def test_length_weighted_by_hand():
    # (3 x 1 + 1 x 0 + 0 x 9) / 4 = 0.75; an answer without tokens pulls nothing.
    advantage = length_weighted(
        double(1, 0, 9), torch.tensor([3, 1, 0]), torch.zeros(3).long(), torch.ones(3).bool()
    )

    assert advantage.tolist() == [0.25, -0.75, 8.25]


def test_length_weighted_of_empty_answers_has_baseline_0():
    advantage = length_weighted(
        double(3, 1), torch.tensor([0, 0]), torch.zeros(2).long(), torch.ones(2).bool()
    )

    assert advantage.tolist() == [3.0, 1.0]


def test_mean_normalised_of_a_negative_reward_raises():
    with pytest.raises(NumericalError, match=r"reward of row 2 is -0.5: MaxRL"):
        mean_normalised(double(1, 0, -0.5, -3, 0), ONE_GROUP, ALL)


def test_pkpo_of_all_answers_is_the_lead_of_the_best():
    # Group 0: 3 leads 1 by 2; mean 4/3, variance (1/9 + 25/9 + 16/9) / 2 = 7/3.
    reward, group = double(1, 3, 0, 2, 2, 0), torch.tensor([0, 0, 0, 1, 1, 1])

    plain = pkpo_advantage(reward, group, torch.ones(6).bool(), None, None)
    divided = pkpo_advantage(reward, group, torch.ones(6).bool(), None, 1e-12)

    assert plain.tolist() == [0.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    assert divided.tolist() == pytest.approx([0.0, 2 / (7 / 3) ** 0.5, 0.0, 0.0, 0.0, 0.0])


def test_group_batch_standardised_by_hand():
    # 1 -1 5 5: mean 2.5, squares 2.25 + 12.25 + 6.25 + 6.25 = 27, unbiased std 3.
    reward, group = double(1, -1, 5, 5), torch.tensor([0, 0, 1, 1])

    advantage = group_batch_standardised(reward, group, torch.ones(4).bool(), 1e-12)

    assert advantage.tolist() == pytest.approx([1 / 3, -1 / 3, 0, 0])


def test_gpg_advantage_by_hand():
    # One of four rewards is not 0: factor 4 on 0.75 and -0.25.
    advantage = gpg_advantage(double(1, 0, 0, 0), torch.zeros(4).long(), torch.ones(4).bool())

    assert advantage.tolist() == [3.0, -1.0, -1.0, -1.0]


def test_gdpo_advantage_by_hand():
    # Each is (1, -1) / sqrt(2) in std: they cancel in rows 0 and 1, and add up in 2 and 3 to
    # S = 0 0 sqrt2 -sqrt2, whose unbiased std is sqrt(4 / 3): A = sqrt(2) / sqrt(4 / 3).
    rewards = {"large": double(1000, 0, 1000, 0), "small": double(0, 0.001, 0.001, 0)}
    group = torch.tensor([0, 0, 1, 1])

    advantage = gdpo_advantage(
        rewards, {"large": 1.0, "small": 1.0}, group, torch.ones(4).bool(), 1e-12
    )

    assert advantage.tolist() == pytest.approx([0, 0, 1.5**0.5, -(1.5**0.5)], abs=1e-6)


def test_gdpo_adds_epsilon_to_both_stds():
    # -+0.5 / (sqrt(1/2) + 1) and -+1 / (sqrt(2) + 1) add up to -+sqrt(1/2), of std 1.
    rewards, group = {"a": double(1, 0), "b": double(3, 1)}, torch.zeros(2).long()

    advantage = gdpo_advantage(rewards, {"a": 1.0, "b": 1.0}, group, torch.ones(2).bool(), 1.0)

    assert advantage.tolist() == pytest.approx([0.5**0.5 / 2, -(0.5**0.5) / 2])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_infinite_valid_reward_raises(bad):
    reward, ids = torch.tensor([1.0, 0.0, bad]), torch.zeros(3, dtype=torch.int64)

    with pytest.raises(NumericalError, match="row 2"):
        group_centred(reward, ids, torch.tensor([True, True, True]))
    kept = group_centred(reward, ids, torch.tensor([True, True, False]))
    assert kept.tolist() == [0.5, -0.5, 0.0]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.bfloat16])
def test_advantages_are_float32_at_least(dtype):
    reward, ids = torch.tensor([1, 0, 0]).to(dtype), torch.zeros(3, dtype=torch.int64)

    result = group_centred(reward, ids, torch.ones(3).bool())

    assert result.dtype == torch.float32
    assert torch.allclose(result, torch.tensor([2 / 3, -1 / 3, -1 / 3]))
