"""Rewards that were given, dealt out to random rows."""

import torch

from components.shaping.transform import ShuffledShaping
from rlcomp.testing import check_component, make_batch


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


def test_the_values_are_the_same_but_on_other_rows_and_move_together():
    values = [float(n) for n in range(40)]

    found = dealt(values, [True] * 40)

    assert sorted(found["reward"].tolist()) == values != found["reward"].tolist()
    assert found["rewards", "a"].tolist() == [2 * value for value in found["reward"].tolist()]
    assert found["correct"].tolist() == [value > 1.5 for value in found["reward"].tolist()]
    assert found["row"].tolist() == [*range(40)]


def test_an_invalid_row_takes_part_in_nothing():
    for seed in range(20):
        found = dealt([1.0, 0.0, 2.0], [True, False, True], seed)["reward"].tolist()

        assert found[1] == 0.0
        assert sorted(found) == [0.0, 1.0, 2.0]


def test_over_many_batches_each_row_gets_the_mean():
    # 400 deals of 0 or 1 to each row: mean 0.5, standard error 0.025.
    found = torch.stack([dealt([0.0, 1.0], [True] * 2, seed)["reward"] for seed in range(400)])

    assert torch.all((found.mean(0) - 0.5).abs() < 5 * 0.025)


def test_the_batch_it_was_given_keeps_its_parts():
    some = batch([1.0, 2.0, 3.0, 4.0], [True] * 4)
    parts = some["rewards"]

    ShuffledShaping()(some)

    assert parts["a"].tolist() == [2.0, 4.0, 6.0, 8.0]


def test_it_keeps_the_contract():
    check_component(ShuffledShaping())
