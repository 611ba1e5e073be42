"""Aggregation of step scores and potential-based shaping: laws, and an enumerated tree."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.process_reward import aggregate_steps, potential_shaping
from rlcomp.functional.returns import reward_to_go

STEPS = st.lists(st.floats(0.01, 1), min_size=1, max_size=5)
PHI = st.lists(st.floats(-3, 3), min_size=5, max_size=5)
MASK = st.lists(st.booleans(), min_size=5, max_size=5)


def aggregated(steps, by):
    log_prob = torch.tensor([steps], dtype=torch.float64).log()
    return aggregate_steps(log_prob, torch.ones(1, len(steps)).bool(), by).item()


@pytest.mark.parametrize(
    ("by", "expected"), [("min", 0.25), ("prod", 0.1), ("last", 0.8), ("mean", 1.55 / 3)]
)
def test_three_steps_by_hand(by, expected):
    # Something stands between the steps, and behind them.
    log_prob = torch.tensor([[0.5, 0.9, 0.25, 0.8, 0.1]]).log()
    ends = torch.tensor([[True, False, True, True, False]])

    assert aggregate_steps(log_prob, ends, by).item() == pytest.approx(expected)


@pytest.mark.parametrize("by", ["min", "prod", "last", "mean"])
def test_an_answer_without_a_step_has_no_score(by):
    assert aggregate_steps(torch.zeros(1, 2), torch.zeros(1, 2).bool(), by).item() == 0


@given(STEPS)
def test_the_product_is_below_the_minimum_and_that_below_the_mean(steps):
    prod, least, mean = (aggregated(steps, by) for by in ("prod", "min", "mean"))

    assert prod <= least * (1 + 1e-9) <= mean * (1 + 2e-9)


@given(STEPS, st.sampled_from(["min", "prod"]))
def test_a_step_that_is_certain_changes_neither_minimum_nor_product(steps, by):
    assert aggregated([*steps, 1.0], by) == pytest.approx(aggregated(steps, by))


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
def test_the_return_of_a_state_falls_by_its_potential(phi, gamma):
    # So that answers to one prompt keep their order, and so does what follows any state.
    mask = torch.ones(1, 5, dtype=torch.bool)
    potential = torch.tensor([phi], dtype=torch.float64)
    reward = torch.arange(5, dtype=torch.float64)[None]

    plain = reward_to_go(reward, mask, gamma)
    shaped = reward_to_go(reward + potential_shaping(potential, mask, gamma), mask, gamma)

    torch.testing.assert_close(shaped, plain - potential)


@pytest.mark.parametrize("gamma", [1.0, 0.7])
def test_the_exact_policy_gradient_is_the_same(gamma):
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
