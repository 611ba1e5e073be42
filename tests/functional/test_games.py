import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.games import count_answers, generator_reward

targets = st.floats(0, 1)


def test_count_answers_by_hand():
    # Question 7: 1 of 2; question 3: 1 of 1; the row of id 9 answers nothing; nobody has id 4.
    group_id = torch.tensor([7, 3, 7, 9])
    right = torch.tensor([True, True, False, True])
    answers = torch.tensor([True, True, True, False])

    result, asked = count_answers(torch.tensor([7, 3, 4, 9]), group_id, right, answers)

    assert result.tolist() == [1, 1, 0, 0]
    assert asked.tolist() == [2, 1, 0, 0]


@given(st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 4), st.booleans(), st.booleans())))
def test_count_answers_equals_a_loop(rows):
    rows = [(0, 0, True, True), *rows]
    asked, group_id, right, answers = map(torch.tensor, zip(*rows, strict=True))

    counted = torch.stack(count_answers(asked, group_id, right, answers), 1).tolist()

    own = [[r for _, g, r, answers in rows if answers and g == a] for a, *_ in rows]
    assert counted == [[sum(mine), len(mine)] for mine in own]


def test_generator_reward_by_hand():
    # 1 - p with p = 1/8, 4/8, 7/8, 8/8; nobody right is 0, not 1.
    reward = generator_reward(torch.tensor([0, 1, 4, 7, 8]), torch.full((5,), 8))

    assert reward.tolist() == [0.0, 0.875, 0.5, 0.125, 0.0]


def test_generator_reward_without_answers_is_0():
    assert generator_reward(torch.tensor([0]), torch.tensor([0])).tolist() == [0.0]


def test_generator_reward_is_largest_at_the_target():
    # 1 - |p - 0.5| / 0.5 = 2 p below a half, 2 - 2 p above.
    half = generator_reward(torch.tensor([0, 1, 4, 7, 8]), torch.full((5,), 8), target=0.5)
    # 1 - |p - 0.25| / 0.75: at 1/4 1, at 1/2 2/3, at 1 0.
    quarter = generator_reward(torch.tensor([1, 2, 4]), torch.full((3,), 4), target=0.25)

    assert half.tolist() == [0.0, 0.25, 1.0, 0.25, 0.0]
    torch.testing.assert_close(quarter, torch.tensor([1.0, 2 / 3, 0.0]))


@given(targets, st.integers(1, 16))
def test_generator_reward_without_a_right_answer_is_0(target, attempts):
    assert generator_reward(torch.tensor([0]), torch.tensor([attempts]), target).item() == 0.0


@given(st.integers(1, 64))
def test_generator_reward_falls_with_successes(attempts):
    successes = torch.arange(attempts + 1)

    reward = generator_reward(successes, torch.full_like(successes, attempts))

    assert bool((reward[1:-1] > reward[2:]).all())
    assert float(reward.max()) <= 1 - 1 / attempts + 1e-7
    assert (reward[0], reward[-1]) == (0, 0)


@given(targets, st.integers(1, 16))
def test_generator_reward_is_between_0_and_1(target, attempts):
    successes = torch.arange(attempts + 1)

    reward = generator_reward(successes, torch.full_like(successes, attempts), target)

    assert bool(((reward >= -1e-6) & (reward <= 1)).all())


def centred(values):
    return values - values.mean()


@given(st.lists(st.integers(1, 8), min_size=2, max_size=8))
def test_generator_and_predictor_advantages_are_opposite(found):
    # A_gen = (1 - p) - mean(1 - p) = -(p - mean(p)).
    successes = torch.tensor(found)

    advantage = centred(generator_reward(successes, torch.full_like(successes, 8)))

    torch.testing.assert_close(advantage, -centred(successes / 8), atol=1e-6, rtol=0)


@given(st.lists(st.integers(1, 8), min_size=1, max_size=7))
def test_a_mask_without_a_right_answer_is_an_exception(found):
    # With p = 0 it would be worth 1, and is worth 0: all others gain 1 / n, and it loses the rest.
    successes = torch.tensor([0, *found])
    n = len(successes)

    advantage = centred(generator_reward(successes, torch.full_like(successes, 8)))

    gap = advantage + centred(successes / 8)
    expected = torch.tensor([1 / n - 1, *[1 / n] * len(found)])
    torch.testing.assert_close(gap, expected, atol=1e-6, rtol=0)
