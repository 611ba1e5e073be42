"""Running normalisation, noise and permutation of rewards."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.shaping.transform import RaterNoise, RunningNormalisation, ShuffledShaping
from rlcomp.batch import encode_texts
from rlcomp.functional.moments import merged_moments
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=8)


def rows(*reward, valid=None):
    reward = torch.tensor(reward)
    return make_batch(
        reward=reward,
        rewards={"learned": reward},
        reward_valid=torch.ones(len(reward)).bool() if valid is None else torch.tensor(valid),
    )


def test_all_rewards_so_far_are_counted():
    stage = RunningNormalisation()

    first = stage(rows(1.0, 3.0))["reward"]
    with recording() as ledger:
        second = stage(rows(5.0, 7.0, 99.0, valid=[True, True, False]))

    assert first.tolist() == [-1, 1]
    # 1, 3, 5, 7: mean 4, variance 5.
    expected = torch.tensor([1 / math.sqrt(5), 3 / math.sqrt(5), 0])
    torch.testing.assert_close(second["reward"], expected)
    torch.testing.assert_close(second["rewards", "normalised"][0], expected[0] - 5)
    assert ledger.means()["reward/running_mean"] == 4
    assert ledger.means()["reward/running_std"] == pytest.approx(math.sqrt(5))


def test_it_is_cut_off():
    assert RunningNormalisation(clip=0.5)(rows(1.0, 3.0))["reward"].tolist() == [-0.5, 0.5]


def test_equal_rewards_become_0():
    assert RunningNormalisation()(rows(7.0, 7.0))["reward"].tolist() == [0, 0]


@given(VALUES, VALUES)
def test_one_batch_or_two_give_the_same_moments(first, second):
    zero = torch.zeros((), dtype=torch.float64)
    one, other = (torch.tensor(x, dtype=torch.float64) for x in (first, second))

    apart = merged_moments(*merged_moments(zero, zero, zero, one), other)

    both = torch.cat([one, other])
    whole = (torch.tensor(float(len(both))), both.mean(), both.var(correction=0) * len(both))
    for got, want in zip(apart, whole, strict=True):
        torch.testing.assert_close(got, want.double(), rtol=1e-9, atol=1e-7)


def test_running_normalisation_keeps_the_contract():
    check_component(RunningNormalisation())


def test_a_spread_that_is_rounding_is_not_blown_up():
    # Mean and standard deviation 1e-7, raised to 1e-6.
    result = RunningNormalisation()(rows(0.0, 2e-7))["reward"]

    assert result.tolist() == pytest.approx([-0.1, 0.1])


def answer_rows(reward, responses, groups):
    number = len(reward)
    return make_batch(
        reward=reward,
        rewards=TensorDict({}, [number]),
        reward_valid=torch.ones(number, dtype=torch.bool),
        group_id=groups,
        response=encode_texts(responses),
    )


def test_the_better_answer_leads_by_the_bradley_terry_model():
    # s(0.2 / 0.1) of pairs 0.5 against 0.3.
    torch.manual_seed(0)
    count = 4000
    groups = [group for group in range(count) for _ in range(2)]
    batch = answer_rows(torch.tensor([0.5, 0.3] * count), ["a", "b"] * count, groups)

    result = RaterNoise(temperature=0.1)(batch)["reward"].view(-1, 2)

    share = (result[:, 0] > result[:, 1]).double().mean().item()
    # Three standard errors of 4,000 pairs are .015.
    assert share == pytest.approx(1 / (1 + math.exp(-2)), abs=0.016)


def test_equal_answers_to_a_prompt_stay_equally_good():
    batch = answer_rows(torch.zeros(4), ["a", "b", "a", "a"], [0, 0, 0, 1])

    first, second, third, other = RaterNoise()(batch)["reward"].tolist()

    assert first == third
    assert len({first, second, other}) == 3


def test_the_noise_is_in_units_of_the_temperature_and_a_part():
    torch.manual_seed(3)
    one = RaterNoise(temperature=1.0)(answer_rows(torch.zeros(2), ["a", "b"], [0, 0]))
    torch.manual_seed(3)
    ten = RaterNoise(temperature=10.0)(answer_rows(torch.ones(2), ["a", "b"], [0, 0]))

    torch.testing.assert_close(ten["reward"], 1 + 10 * one["reward"])
    torch.testing.assert_close(ten["rewards", "rater_noise"], 10 * one["reward"])


def test_rater_noise_keeps_the_contract():
    check_component(RaterNoise())


def batch(values, valid):
    reward = torch.tensor(values)
    return make_batch(
        reward=reward,
        rewards={"a": 2 * reward},
        correct=reward > 1.5,
        reward_valid=valid,
        row=torch.arange(len(values)),
    )


def dealt(values, valid, seed=0):
    torch.manual_seed(seed)
    return ShuffledShaping()(batch(values, valid))


def test_values_are_permuted_together():
    values = [float(n) for n in range(40)]

    result = dealt(values, [True] * 40)

    assert sorted(result["reward"].tolist()) == values != result["reward"].tolist()
    assert result["rewards", "a"].tolist() == [2 * value for value in result["reward"].tolist()]
    assert result["correct"].tolist() == [value > 1.5 for value in result["reward"].tolist()]
    assert result["row"].tolist() == [*range(40)]


def test_an_invalid_row_takes_part_in_nothing():
    for seed in range(20):
        result = dealt([1.0, 0.0, 2.0], [True, False, True], seed)["reward"].tolist()

        assert result[1] == 0.0
        assert sorted(result) == [0.0, 1.0, 2.0]


def test_over_many_batches_each_row_gets_the_mean():
    # 400 draws of 0 or 1 for each row: mean 0.5, standard error 0.025.
    result = torch.stack([dealt([0.0, 1.0], [True] * 2, seed)["reward"] for seed in range(400)])

    assert torch.all((result.mean(0) - 0.5).abs() < 5 * 0.025)


def test_the_parts_of_the_batch_are_unchanged():
    some = batch([1.0, 2.0, 3.0, 4.0], [True] * 4)
    parts = some["rewards"]

    ShuffledShaping()(some)

    assert parts["a"].tolist() == [2.0, 4.0, 6.0, 8.0]


def test_shuffled_shaping_keeps_the_contract():
    check_component(ShuffledShaping())
