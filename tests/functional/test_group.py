import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from rlcomp.errors import NumericalError
from rlcomp.functional.group import group_centred, group_standardised

GOLDEN = Path(__file__).parents[1] / "golden" / "policy"
ONE_GROUP = torch.zeros(5, dtype=torch.int64)
ALL = torch.ones(5, dtype=torch.bool)


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def cases(name):
    """(arguments, tensors) of each case of a file."""
    with safe_open(GOLDEN / f"{name}.safetensors", "pt") as file:
        keys = list(file.keys())
        for case, arguments in json.loads(file.metadata()["cases"]).items():
            start = f"{case}/"
            yield (
                arguments,
                {k.removeprefix(start): file.get_tensor(k) for k in keys if k.startswith(start)},
            )


def test_two_right_of_five_in_reward_units():
    # mean 2/5: right ones get 1 - 0.4, wrong ones 0 - 0.4.
    advantage = group_centred(double(1, 0, 0, 1, 0), ONE_GROUP, ALL)

    torch.testing.assert_close(advantage, double(0.6, -0.4, -0.4, 0.6, -0.4))


def test_two_right_of_five_in_standard_deviations():
    # variance (2 x 0.36 + 3 x 0.16) / 4 = 0.3; 0.6 / sqrt(0.3) = 1.0954451, -0.4 / sqrt(0.3).
    advantage = group_standardised(double(1, 0, 0, 1, 0), ONE_GROUP, ALL, 1e-6)

    wanted = double(1.095443, -0.730295, -0.730295, 1.095443, -0.730295)
    torch.testing.assert_close(advantage, wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("right", "answers"), [(1, 4), (2, 5), (7, 8)])
def test_binary_rewards_have_the_closed_form(right, answers):
    # A+ = sqrt((n-k)/k) sqrt((n-1)/n), A- = -sqrt(k/(n-k)) sqrt((n-1)/n).
    reward = (torch.arange(answers) < right).double()
    valid = torch.ones(answers, dtype=torch.bool)

    advantage = group_standardised(reward, torch.zeros_like(valid).long(), valid, 1e-12)

    shrink = ((answers - 1) / answers) ** 0.5
    plus = ((answers - right) / right) ** 0.5 * shrink
    minus = -((right / (answers - right)) ** 0.5) * shrink
    assert advantage[0].item() == pytest.approx(plus, rel=1e-6)
    assert advantage[-1].item() == pytest.approx(minus, rel=1e-6)


@pytest.mark.parametrize("name", ["verl__adv_grpo", "verl__adv_drgrpo"])
def test_verl_s_advantages_are_reproduced(name):
    for arguments, case in cases(name):
        reward, mask = case["in/token_level_rewards"].sum(1), case["in/response_mask"].bool()
        valid = torch.ones_like(reward, dtype=torch.bool)
        if arguments["norm_adv_by_std_in_grpo"]:
            advantage = group_standardised(reward, case["in/index"], valid, 1e-6)
        else:
            advantage = group_centred(reward, case["in/index"], valid)

        got, want = advantage[:, None].expand(mask.shape)[mask], case["out/advantages"][mask]
        # verl computes group statistics in float32.
        torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-6)


def test_trl_s_advantages_are_reproduced_with_unscorable_rows():
    for arguments, case in cases("trl__grpo_advantages"):
        reward = case["in/rewards_per_func"][:, 0]
        group = torch.arange(len(reward)) // arguments["num_generations"]
        valid = ~reward.isnan()
        if arguments["scale_rewards"] == "group":
            advantage = group_standardised(reward, group, valid, 1e-4)
        else:
            advantage = group_centred(reward, group, valid)

        torch.testing.assert_close(advantage, case["out/advantages"], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(("value", "answers"), [(0.35, 7), (0.7, 12), (0.1, 8), (1e6, 3)])
def test_equal_rewards_give_exactly_0_although_their_float32_mean_does_not(value, answers):
    reward = torch.full((answers,), value)
    group = torch.zeros(answers, dtype=torch.int64)
    valid = torch.ones(answers, dtype=torch.bool)

    assert group_standardised(reward, group, valid, 1e-6).tolist() == [0.0] * answers
    assert group_centred(reward, group, valid).tolist() == [0.0] * answers


def test_one_reward_that_differs_is_not_taken_for_rounding():
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


def test_an_invalid_row_is_not_counted_and_gets_0():
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

    for advantage in (
        group_centred(reward, group, valid),
        group_standardised(reward, group, valid, 1e-6),
    ):
        for label in set(group.tolist()):
            assert advantage[group == label].sum().item() == pytest.approx(0, abs=1e-9)


@given(rewards, groups, st.integers(-8, 8))
def test_a_constant_on_every_reward_changes_nothing(values, ids, shift):
    reward, group, valid = batch(values, ids)

    torch.testing.assert_close(
        group_standardised(reward + shift, group, valid, 1e-6),
        group_standardised(reward, group, valid, 1e-6),
    )


@given(rewards, groups, st.sampled_from([-3.0, -1.0, 0.5, 2.0]))
def test_the_scale_of_rewards_is_kept_or_taken_out(values, ids, scale):
    reward, group, valid = batch(values, ids)

    torch.testing.assert_close(
        group_centred(scale * reward, group, valid), scale * group_centred(reward, group, valid)
    )
    torch.testing.assert_close(
        group_standardised(scale * reward, group, valid, 1e-12),
        group_standardised(reward, group, valid, 1e-12) * (1 if scale > 0 else -1),
    )


@given(rewards, groups, st.randoms(use_true_random=False))
def test_only_who_shares_a_group_matters_not_its_label_or_place(values, ids, random):
    reward, group, valid = batch(values, ids)
    order = list(range(len(values)))
    random.shuffle(order)
    labels = torch.tensor([17, 3, 99, -2])

    moved = group_standardised(reward[order], labels[group][order], valid, 1e-6)

    torch.testing.assert_close(moved, group_standardised(reward, group, valid, 1e-6)[order])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_reward_that_is_not_finite_stops_the_run_unless_it_is_invalid(bad):
    reward, ids = torch.tensor([1.0, 0.0, bad]), torch.zeros(3, dtype=torch.int64)

    with pytest.raises(NumericalError, match="row 2"):
        group_centred(reward, ids, torch.tensor([True, True, True]))
    kept = group_centred(reward, ids, torch.tensor([True, True, False]))
    assert kept.tolist() == [0.5, -0.5, 0.0]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.bfloat16])
def test_statistics_are_taken_in_float32_at_least(dtype):
    reward, ids = torch.tensor([1, 0, 0]).to(dtype), torch.zeros(3, dtype=torch.int64)

    result = group_centred(reward, ids, torch.ones(3).bool())

    assert result.dtype == torch.float32
    assert torch.allclose(result, torch.tensor([2 / 3, -1 / 3, -1 / 3]))
