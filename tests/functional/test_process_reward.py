import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.process_reward import (
    aggregate_steps,
    implicit_process_advantage,
    potential_shaping,
    step_advantage,
)
from rlcomp.functional.returns import reward_to_go

BOTH = torch.tensor([True, True])
TOGETHER = torch.tensor([0, 0])


def double(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_step_advantage_credits_tokens_with_later_step_ends():
    # Steps 1 0 | 1 1: mean 0.75, squares 3/16 + 9/16 = 0.75, unbiased std 0.5: +0.5, -1.5.
    reward = double([0, 1, 0, 0], [1, 0, 1, 0])
    ends = torch.tensor([[False, True, False, True], [True, False, True, False]])

    advantage = step_advantage(reward, ends, TOGETHER, BOTH, 1e-12)

    expected = double([-1.0, -1.0, -1.5, -1.5], [1.0, 0.5, 0.5, 0.0])
    torch.testing.assert_close(advantage, expected)


def test_step_advantage_counts_steps_of_reward_0():
    # Steps 0 and 1: mean 0.5, std sqrt(0.5). The 5 stands on no step's end.
    reward = double([0, 5], [1, 5])
    ends = torch.tensor([[True, False], [True, False]])

    advantage = step_advantage(reward, ends, TOGETHER, BOTH, 1e-12)

    torch.testing.assert_close(advantage, double([-(0.5**0.5), 0], [0.5**0.5, 0]))


@pytest.mark.parametrize(("value", "steps"), [(0.7, 7), (0.7, 12), (0.1, 8)])
def test_step_advantage_of_equal_rewards_is_0(value, steps):
    reward, ends = torch.full((2, steps), value), torch.ones(2, steps, dtype=torch.bool)

    assert not step_advantage(reward, ends, TOGETHER, BOTH, 1e-6).any()


@pytest.mark.parametrize("alone", ["by its group", "by the other's lack of steps", "as valid"])
def test_step_advantage_of_a_single_answer_is_0(alone):
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
def test_step_advantages_of_a_group_sum_to_0(drawn):
    reward, ends, group, valid = (torch.tensor(column) for column in zip(*drawn, strict=True))
    reward = reward.double()
    corrupted = torch.where(ends & valid[:, None], reward, float("nan"))

    advantage = step_advantage(corrupted, ends, group, valid, 1e-6)

    assert advantage.equal(step_advantage(reward, ends, group, valid, 1e-6))
    steps = advantage - torch.nn.functional.pad(advantage[:, 1:], (0, 1))
    for label in set(group.tolist()):
        assert steps[group == label].sum().item() == pytest.approx(0, abs=1e-9)
    assert not steps[~(ends & valid[:, None])].abs().gt(1e-12).any()


def test_implicit_process_advantage_by_hand():
    reward = double([1, 2, 3], [6, 0, 0], [0, 8, 0])
    mask = torch.tensor([[True, True, True], [True, False, False], [False, True, False]])
    group, valid = torch.tensor([0, 0, 0]), torch.tensor([True, True, True])

    advantage = implicit_process_advantage(reward, mask, group, valid, 1.0)

    # Means 2, 6 and 8, so that the others' are 7, 5 and 4: -6 -5 -4 | 1 | 4, summed from behind.
    expected = double([-15, -9, -4], [1, 0, 0], [0, 4, 0])
    torch.testing.assert_close(advantage, expected)


STEPS = st.lists(st.floats(0.01, 1), min_size=1, max_size=5)
PHI = st.lists(st.floats(-3, 3), min_size=5, max_size=5)
MASK = st.lists(st.booleans(), min_size=5, max_size=5)


def aggregate(steps, by):
    log_prob = torch.tensor([steps], dtype=torch.float64).log()
    return aggregate_steps(log_prob, torch.ones(1, len(steps)).bool(), by).item()


@pytest.mark.parametrize(
    ("by", "expected"), [("min", 0.25), ("prod", 0.1), ("last", 0.8), ("mean", 1.55 / 3)]
)
def test_aggregate_steps_by_hand(by, expected):
    # Something stands between the steps, and behind them.
    log_prob = torch.tensor([[0.5, 0.9, 0.25, 0.8, 0.1]]).log()
    ends = torch.tensor([[True, False, True, True, False]])

    assert aggregate_steps(log_prob, ends, by).item() == pytest.approx(expected)


@pytest.mark.parametrize("by", ["min", "prod", "last", "mean"])
def test_aggregate_steps_without_a_step_is_0(by):
    assert aggregate_steps(torch.zeros(1, 2), torch.zeros(1, 2).bool(), by).item() == 0


@given(STEPS)
def test_product_minimum_and_mean_are_ordered(steps):
    prod, least, mean = (aggregate(steps, by) for by in ("prod", "min", "mean"))

    assert prod <= least * (1 + 1e-9) <= mean * (1 + 2e-9)


@given(STEPS, st.sampled_from(["min", "prod"]))
def test_a_certain_step_changes_neither_minimum_nor_product(steps, by):
    assert aggregate([*steps, 1.0], by) == pytest.approx(aggregate(steps, by))


@given(PHI, MASK, st.floats(0, 1))
def test_shaping_telescopes_to_the_potential_of_the_start(phi, mask, gamma):
    potential, steps = torch.tensor([phi], dtype=torch.float64), torch.tensor([mask])

    shaped = potential_shaping(potential, steps, gamma)

    inside = shaped[steps]
    total = sum(gamma**n * reward for n, reward in enumerate(inside.tolist()))
    start = potential[steps][0].item() if any(mask) else 0.0
    assert total == pytest.approx(-start, abs=1e-9)
    assert shaped[~steps].eq(0).all()


@given(PHI, st.floats(0, 1))
def test_potential_shaping_lowers_returns_by_the_potential(phi, gamma):
    # So that answers to one prompt keep their order, and so does what follows any state.
    mask = torch.ones(1, 5, dtype=torch.bool)
    potential = torch.tensor([phi], dtype=torch.float64)
    reward = torch.arange(5, dtype=torch.float64)[None]

    plain = reward_to_go(reward, mask, gamma)
    shaped = reward_to_go(reward + potential_shaping(potential, mask, gamma), mask, gamma)

    torch.testing.assert_close(shaped, plain - potential)


@pytest.mark.parametrize("gamma", [1.0, 0.7])
def test_potential_shaping_keeps_the_policy_gradient(gamma):
    # Two tokens of three kinds; the potential is any function of the tokens so far.
    generator = torch.Generator().manual_seed(0)
    draw = {"generator": generator, "dtype": torch.float64}
    first, second = torch.randn(3, **draw), torch.randn(3, 3, **draw)
    outcome, phi = torch.randn(3, 3, **draw), torch.randn(1 + 3, **draw)

    def gradient(shaped):
        logits = [first.clone().requires_grad_(), second.clone().requires_grad_()]
        total = torch.zeros((), dtype=torch.float64)
        for a, b in itertools.product(range(3), repeat=2):
            log_probs = torch.stack([logits[0].log_softmax(0)[a], logits[1][a].log_softmax(0)[b]])
            reward = torch.tensor([[0.0, float(outcome[a, b])]], dtype=torch.float64)
            mask = torch.ones(1, 2, dtype=torch.bool)
            if shaped:
                states = torch.stack([phi[0], phi[1 + a]])[None]
                reward = reward + potential_shaping(states, mask, gamma)
            returns = reward_to_go(reward, mask, gamma)[0]
            discount = torch.tensor([1.0, gamma], dtype=torch.float64)
            chance = log_probs.sum().exp().detach()
            total = total + chance * (discount * returns * log_probs).sum()
        return torch.cat([g.flatten() for g in torch.autograd.grad(total, logits)])

    torch.testing.assert_close(gradient(shaped=True), gradient(shaped=False))
