"""What group estimators do to the policy gradient, by enumerating every group of answers.

Three tokens, two places: 9 answers, 81 pairs or 729 triples of answers to a prompt. The expectation
of the estimated gradient is exact, and so is the gradient of the expected reward.
"""

from itertools import product

import pytest
import torch

from rlcomp.functional.best_of import pkpo_advantage
from rlcomp.functional.group import (
    group_centred,
    group_standardised,
    leave_one_out,
    mean_normalised,
)

ANSWERS = list(product(range(3), repeat=2))
TOGETHER, BOTH = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool)


def instance():
    """Logits of the first and, after each first, of the second token; rewards of the answers."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(4, 3, generator=generator, dtype=torch.float64).requires_grad_()
    return logits, torch.randn(9, generator=generator, dtype=torch.float64)


def log_probs(logits):
    """Of each of the nine answers."""
    tables = logits.log_softmax(-1)
    return torch.stack([tables[0, first] + tables[1 + first, second] for first, second in ANSWERS])


def gradient_of(objective):
    """Of ``objective(probabilities, rewards)``, a number."""
    logits, reward = instance()
    (gradient,) = torch.autograd.grad(objective(log_probs(logits).exp(), reward), logits)
    return gradient


def expected_gradient(estimator, size=2, right=None):
    """Over all groups: ``p_i p_j ...`` times the mean of ``A grad log p`` over the group."""
    logits, reward = instance()
    reward = reward if right is None else right
    log_p = log_probs(logits)
    total = torch.zeros((), dtype=torch.float64)
    together, valid = torch.zeros(size, dtype=torch.int64), torch.ones(size).bool()
    for group in product(range(9), repeat=size):
        rows = torch.tensor(group)
        advantage = estimator(reward[rows], together, valid)
        chance = log_p[rows].detach().sum().exp()
        total = total + chance * (advantage * log_p[rows]).mean()
    (gradient,) = torch.autograd.grad(total, logits)
    return gradient


def expected_reward(probs, reward):
    return (probs * reward).sum()


def expected_best(probs, reward):
    best = torch.maximum(reward[:, None], reward[None, :])
    return (probs[:, None] * probs[None, :] * best).sum()


def test_leaving_one_out_is_unbiased():
    result, expected = expected_gradient(leave_one_out), gradient_of(expected_reward)

    torch.testing.assert_close(result, expected, atol=1e-12, rtol=0)


def test_the_group_mean_shrinks_the_gradient_by_1_minus_1_over_n():
    result, expected = expected_gradient(group_centred), gradient_of(expected_reward) / 2

    torch.testing.assert_close(result, expected, atol=1e-12, rtol=0)


def test_division_by_the_group_s_std_turns_the_gradient():
    def estimator(*rows):
        return group_standardised(*rows, 1e-6)

    result, true = expected_gradient(estimator).flatten(), gradient_of(expected_reward).flatten()

    assert 0 < torch.cosine_similarity(result, true, dim=0).item() < 0.99


def test_of_two_rewards_the_standardised_advantage_sees_only_which_is_larger():
    # (R1 - R2) / 2 over |R1 - R2| / sqrt(2): +-1 / sqrt(2), however far apart.
    for gap in (0.1, 10.0):
        reward = torch.tensor([gap, 0.0], dtype=torch.float64)
        advantage = group_standardised(reward, TOGETHER, BOTH, 1e-12)
        assert advantage.tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)])


def test_the_best_over_the_second_climbs_the_expected_best_of_the_group():
    # The mean over two answers halves a sum in which each answer's lead counts once.
    def estimator(*rows):
        return pkpo_advantage(*rows, None, None)

    result, expected = expected_gradient(estimator), gradient_of(expected_best) / 2

    torch.testing.assert_close(result, expected, atol=1e-12, rtol=0)


def test_the_best_of_2_is_climbed_with_groups_of_3():
    # The mean over three answers is a third of the sum, which is unbiased.
    def estimator(*rows):
        return pkpo_advantage(*rows, 2, None)

    result, expected = expected_gradient(estimator, size=3), gradient_of(expected_best) / 3

    torch.testing.assert_close(result, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("size", [2, 3])
def test_maxrl_climbs_the_log_of_the_success_rate_up_to_order_n_minus_1(size):
    # d log p = dp / p = dp sum_j (1 - p)^j; groups of n have the first n - 1 terms.
    right = torch.tensor([1.0, 0, 0, 1, 0, 0, 0, 0, 1], dtype=torch.float64)

    def truncated(probs, _):
        p = (probs * right).sum()
        failure = 1 - p.detach()
        return p * sum(failure**j for j in range(size - 1))

    result = expected_gradient(mean_normalised, size, right)

    torch.testing.assert_close(result, gradient_of(truncated), atol=1e-12, rtol=0)
