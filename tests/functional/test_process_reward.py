import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.process_reward import implicit_process_advantage, step_advantage

BOTH = torch.tensor([True, True])
TOGETHER = torch.tensor([0, 0])


def double(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_a_token_is_credited_with_the_steps_that_end_at_it_or_after_it():
    # Steps 1 0 | 1 1: mean 0.75, squares 3/16 + 9/16 = 0.75, unbiased std 0.5: +0.5, -1.5.
    reward = double([0, 1, 0, 0], [1, 0, 1, 0])
    ends = torch.tensor([[False, True, False, True], [True, False, True, False]])

    advantage = step_advantage(reward, ends, TOGETHER, BOTH, 1e-12)

    want = double([-1.0, -1.0, -1.5, -1.5], [1.0, 0.5, 0.5, 0.0])
    torch.testing.assert_close(advantage, want)


def test_a_step_of_reward_0_is_a_step_and_a_token_without_a_step_is_none():
    # Steps 0 and 1: mean 0.5, std sqrt(0.5). The 5 stands on no step's end.
    reward = double([0, 5], [1, 5])
    ends = torch.tensor([[True, False], [True, False]])

    advantage = step_advantage(reward, ends, TOGETHER, BOTH, 1e-12)

    torch.testing.assert_close(advantage, double([-(0.5**0.5), 0], [0.5**0.5, 0]))


@pytest.mark.parametrize(("value", "steps"), [(0.7, 7), (0.7, 12), (0.1, 8)])
def test_steps_rewarded_alike_give_exactly_0_in_float32(value, steps):
    reward, ends = torch.full((2, steps), value), torch.ones(2, steps, dtype=torch.bool)

    assert not step_advantage(reward, ends, TOGETHER, BOTH, 1e-6).any()


@pytest.mark.parametrize("alone", ["by its group", "by the other's lack of steps", "as valid"])
def test_an_answer_alone_is_compared_with_nothing(alone):
    reward, ends = double([1, 0], [1, 0]), torch.ones(2, 2, dtype=torch.bool)
    group = torch.tensor([0, 1]) if alone == "by its group" else TOGETHER
    ends[1] = alone != "by the other's lack of steps"
    valid = torch.tensor([True, alone != "as valid"])

    assert not step_advantage(reward, ends, group, valid, 1e-6).any()


rows = st.lists(
    st.tuples(
        st.lists(st.integers(-3, 3), min_size=5, max_size=5),
        st.lists(st.booleans(), min_size=5, max_size=5),
        st.integers(0, 1),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@given(rows)
def test_the_steps_of_a_group_sum_to_0_and_garbage_elsewhere_changes_nothing(drawn):
    reward, ends, group, valid = (torch.tensor(column) for column in zip(*drawn, strict=True))
    reward = reward.double()
    corrupted = torch.where(ends & valid[:, None], reward, float("nan"))

    advantage = step_advantage(corrupted, ends, group, valid, 1e-6)

    assert advantage.equal(step_advantage(reward, ends, group, valid, 1e-6))
    steps = advantage - torch.nn.functional.pad(advantage[:, 1:], (0, 1))
    for label in set(group.tolist()):
        assert steps[group == label].sum().item() == pytest.approx(0, abs=1e-9)
    assert not steps[~(ends & valid[:, None])].abs().gt(1e-12).any()


def test_baselines_are_means_over_the_tokens_of_each_other_answer():
    reward = double([1, 2, 3], [6, 0, 0], [0, 8, 0])
    mask = torch.tensor([[True, True, True], [True, False, False], [False, True, False]])
    group, valid = torch.tensor([0, 0, 0]), torch.tensor([True, True, True])

    advantage = implicit_process_advantage(reward, mask, group, valid, 1.0)

    # Means 2, 6 and 8, so that the others' are 7, 5 and 4: -6 -5 -4 | 1 | 4, summed from behind.
    want = double([-15, -9, -4], [1, 0, 0], [0, 4, 0])
    torch.testing.assert_close(advantage, want)
