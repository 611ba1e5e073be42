import torch

from rlcomp.functional.returns import gae
from rlcomp.functional.turn_credit import (
    gigpo_steps,
    mt_grpo_turns,
    other_episodes_mean,
    turn_returns,
    vine_advantage,
)

ZERO, ONE = 0, 1


def test_turn_returns_by_hand():
    # 1 + .5 (2 + .5 * 4) = 3, 2 + .5 * 4 = 4, 4.
    assert turn_returns(torch.tensor([[1.0, 2.0, 4.0]]), 0.5).tolist() == [[3.0, 4.0, 4.0]]
    assert turn_returns(torch.zeros(2, 0), 0.5).shape == (2, 0)


def test_other_episodes_mean_leaves_out_own_visits():
    # Episode 0 was there twice, with 1 and 3; episode 1 with 5; a visit that does not count with 9.
    value = torch.tensor([1.0, 3.0, 5.0, 9.0, 7.0])
    there = torch.tensor([True, True, True, False, True])
    cell, episode = torch.tensor([0, 0, 0, 0, 1]), torch.tensor([0, 0, 1, 1, 1])

    result = other_episodes_mean(value, there, cell, episode)

    assert result[:3].tolist() == [5.0, 5.0, 2.0]
    assert result[4].isnan()


def steps(baseline="group", epsilon=None, **changed):
    # Two episodes of a group, three turns each; states 4, 4, 5 and 4, 6, unknown.
    arguments = {
        "returns": torch.tensor([[4.0, 2.0, 1.0], [0.0, 3.0, 8.0]]),
        "anchor": torch.tensor([[4, 4, 5], [4, 6, -1]]),
        "countable": torch.ones(2, 3, dtype=torch.bool),
        "group": torch.tensor([3, 3]),
    } | changed
    return gigpo_steps(**arguments, baseline=baseline, epsilon=epsilon)


def test_gigpo_compares_turns_of_the_same_state():
    result, sizes = steps()

    # State 4: returns 4, 2, 0, mean 2. Alone in 5 and 6; the last state is unknown.
    assert result.tolist() == [[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]
    assert sizes.tolist() == [[3.0, 3.0, 1.0], [3.0, 1.0, 0.0]]


def test_gigpo_divides_by_the_std():
    result, _ = steps(epsilon=0.5)

    # Unbiased: sqrt((4 + 0 + 4) / 2) = 2; 2 / 2.5.
    torch.testing.assert_close(result, torch.tensor([[0.8, 0.0, 0.0], [-0.8, 0.0, 0.0]]))


def test_gigpo_against_other_episodes():
    result, _ = steps(baseline="others")

    # Episode 0 against 0; episode 1 against (4 + 2) / 2.
    assert result.tolist() == [[4.0, 2.0, 0.0], [-3.0, 0.0, 0.0]]


def test_states_of_other_groups_and_of_invalid_episodes_do_not_count():
    apart, _ = steps(group=torch.tensor([3, 7]))
    assert apart.tolist() == [[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]]
    valid = torch.tensor([[True] * 3, [False] * 3])
    for baseline in ("group", "others"):
        alone, sizes = steps(baseline=baseline, countable=valid)
        assert alone[1].tolist() == [0.0] * 3
        assert sizes.tolist() == [[2.0, 2.0, 1.0], [0.0] * 3]
    assert alone[0].tolist() == [0.0] * 3  # nobody else was there


def test_mt_grpo_standardises_turns_that_are_not_the_last():
    reward = torch.tensor([[1.0, 5.0, 0.0], [3.0, 7.0, 9.0], [8.0, 0.0, 0.0], [2.0, 1.0, 0.0]])
    there = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 0]]).bool()
    valid = torch.tensor([True, True, True, False])

    result = mt_grpo_turns(reward, there, valid, torch.zeros(4, dtype=torch.int64), 1e-9)

    # Turn 0: rows 0 and 1 (row 2 ends there, row 3 is not valid): 1, 3, std sqrt(2).
    half = 0.5**0.5
    torch.testing.assert_close(result[:, 0], torch.tensor([-half, half, 0.0, 0.0]))
    # Turn 1: row 1 alone goes on.
    assert result[:, 1:].abs().sum() == 0


def test_gae_over_turns_by_hand():
    reward, value = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, 4.0]])
    there = torch.ones(1, 2, dtype=torch.bool)

    # delta_1 = 2 - 4 = -2; delta_0 = 1 + .5 * 4 - .5 = 2.5; A_0 = 2.5 + .5 * .8 * -2.
    result = gae(reward, value, there, 0.5, 0.8)

    torch.testing.assert_close(result, torch.tensor([[1.7, -2.0]]))


def test_gae_over_turns_of_one_turn_is_the_reward_less_the_value():
    there = torch.tensor([[True, False]])

    result = gae(torch.tensor([[3.0, 0.0]]), torch.tensor([[1.0, 9.0]]), there, 1.0, 1.0)

    assert result.tolist() == [[2.0, 0.0]]


def test_vine_by_hand():
    value = torch.tensor([[0.25, 0.5, 0.125], [0.5, torch.nan, 9.0], [0.75, 0.5, 9.0]])
    there = torch.tensor([[1, 1, 1], [1, 1, 0], [0, 0, 0]]).bool()

    result = vine_advantage(torch.tensor([1.0, 1.0, 1.0]), value, there)

    # .5 - .25, .125 - .5, 1 - .125; beside an unknown value nothing can be said.
    assert result.tolist() == [[0.25, -0.375, 0.875], [0.0] * 3, [0.0] * 3]
