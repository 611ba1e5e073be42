"""Preference losses of one pair by hand, and what each is where the policy is the reference.

``s_w = -5, s_l = -6, s_ref_w = -5.5, s_ref_l = -5.2``, of 4 and 6 tokens: ``h_w = 0.5``,
``h_l = -0.8``, ``m = 1.3``, means -1.25 and -1.
"""

import math

import pytest
import torch

from rlcomp.errors import ConfigError
from rlcomp.functional import preference as losses
from rlcomp.functional.preference_score import (
    divergence_score,
    dpop_score,
    forward_kl,
    ld_dpo_score,
    log_odds,
    power_transform,
)


def number(value):
    return torch.tensor([value], dtype=torch.float64)


W, L, M = number(0.5), number(-0.8), number(1.3)
RIGHT, FLIPPED, NOISE = losses.sigmoid_loss(0.1 * M), losses.sigmoid_loss(-0.1 * M), number(0.1)
ZERO = number(0.0)


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (RIGHT, 0.63025819),
        (losses.label_noise_loss(RIGHT, FLIPPED, NOISE, unbiased=False), 0.64325819),
        (losses.label_noise_loss(RIGHT, FLIPPED, NOISE, unbiased=True), 0.61400819),
        # (0.5 / 4 + 0.8 / 6 - 5)^2
        (losses.squared_loss(W / 4 - L / 6, 0.1), 22.48340278),
        (losses.squared_loss(M, 0.1), 13.69),
        (losses.hinge_loss(0.1 * M), 0.87),
        (losses.sppo_loss(W, L, 0.1), 37.89),
        (losses.nca_loss(W, L, 0.1), 1.35466296),
        (losses.bco_loss(W, L, 0.1), 1.32240662),
        (losses.apo_zero_loss(W, L, 0.1), 0.96751326),
        (losses.apo_down_loss(W, L, 0.1), 0.98004309),
        (losses.discopop_loss(0.1 * M, 0.05), 0.86096036),
        (losses.sigmoid_loss(0.1 * (W / 4 - L / 6)), 0.68031393),
        (losses.exo_loss(0.1 * M, 1e-3), 2.53918482),
        # SimPO: 2 (-1.25 + 1) - 1
        (losses.sigmoid_loss(number(-1.5)), 1.70141328),
        (log_odds(number(-1.25)), -0.91242043),
        (log_odds(number(-1.0)), -0.54132485),
        (losses.sigmoid_loss(log_odds(number(-1.25)) - log_odds(number(-1.0))), 0.89581109),
        (losses.kto_loss(W, torch.tensor([True]), number(0.2), 0.1, 1.0, 1.0), 0.49250056),
        (losses.kto_loss(L, torch.tensor([False]), number(0.2), 0.1, 1.0, 1.0), 0.47502081),
        # TDPO1 and TDPO2 with K_w = 0.4, K_l = 0.9
        (losses.sigmoid_loss(0.1 * (M - 0.5)), 0.65394697),
        (losses.sigmoid_loss(0.1 * (M - 0.5 * 0.5)), 0.64202467),
    ],
)
def test_the_worked_numbers(found, value):
    assert found.item() == pytest.approx(value, abs=5e-9)


def test_the_penalty_of_dpop_stands_inside_the_sigmoid():
    # s_w = -6: h_w = -0.5, the argument 0.3 (-0.5 - 50 * 0.5 + 0.8) = -7.41, its slope -0.3 * 51.
    chosen = number(-0.5).requires_grad_()
    score = dpop_score(chosen, torch.tensor([True]), 50.0)
    value = losses.sigmoid_loss(0.3 * (score - L))

    value.backward()

    assert value.item() == pytest.approx(7.41060499, abs=5e-9)
    assert chosen.grad.item() == pytest.approx(-15.29074649, abs=5e-9)


def test_a_chosen_answer_that_is_as_likely_as_it_was_pays_no_penalty():
    score = dpop_score(torch.tensor([0.5, -0.8]), torch.tensor([True, False]), 50.0)

    assert score.tolist() == pytest.approx([0.5, -0.8])


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (losses.sigmoid_loss(ZERO), math.log(2)),
        (losses.squared_loss(ZERO, 0.1), 25.0),
        (losses.hinge_loss(ZERO), 1.0),
        (losses.sppo_loss(ZERO, ZERO, 0.1), 50.0),
        (losses.nca_loss(ZERO, ZERO, 0.1), 2 * math.log(2)),
        (losses.bco_loss(ZERO, ZERO, 0.1), 2 * math.log(2)),
        (losses.apo_zero_loss(ZERO, ZERO, 0.1), 1.0),
        (losses.apo_down_loss(ZERO, ZERO, 0.1), 1.0),
        # -log 2 - (1/2) log(e (1 - e))
        (losses.exo_loss(ZERO, 0.1), -math.log(2) - 0.5 * math.log(0.09)),
        (losses.kto_loss(ZERO, torch.tensor([True]), ZERO, 0.1, 1.4, 1.0), 0.7),
    ],
)
def test_the_loss_where_policy_and_reference_agree(found, value):
    assert found.item() == pytest.approx(value)


@pytest.mark.parametrize("score", [-1e4, 1e4])
def test_extreme_scores_have_finite_losses_and_gradients(score):
    for loss in (losses.nca_loss, losses.bco_loss, losses.apo_zero_loss, losses.apo_down_loss):
        chosen = torch.tensor([score], requires_grad=True)
        value = loss(chosen, -chosen, 1.0)
        value.backward()
        assert bool(value.isfinite() & chosen.grad.isfinite())
    for loss in (
        losses.sigmoid_loss,
        losses.hinge_loss,
        lambda z: losses.exo_loss(z, 1e-3),
        lambda z: losses.discopop_loss(z / 1e3, 0.05),
    ):
        argument = torch.tensor([score], requires_grad=True)
        value = loss(argument)
        value.backward()
        assert bool(value.isfinite() & argument.grad.isfinite())


def test_the_unbiased_loss_has_the_clean_one_as_its_mean_over_wrong_labels():
    for right, wrong in ((RIGHT, FLIPPED), (FLIPPED, RIGHT)):
        mean = 0.7 * losses.label_noise_loss(right, wrong, number(0.3), unbiased=True)
        mean += 0.3 * losses.label_noise_loss(wrong, right, number(0.3), unbiased=True)
        assert mean.item() == pytest.approx(right.item())


def test_labels_that_say_nothing_have_no_unbiased_loss():
    with pytest.raises(ConfigError, match=r"wrong with probability 0\.5: an unbiased loss needs"):
        losses.label_noise_loss(RIGHT, FLIPPED, number(0.5), unbiased=True)


def test_exo_without_noise_is_refused():
    with pytest.raises(ConfigError, match=r"epsilon is 0: EXO's log\(epsilon\) needs"):
        losses.exo_loss(ZERO, 0)


def test_scores_of_other_divergences_have_the_slope_of_the_log_ratio_at_the_reference():
    # At h = 0: e^0 = 1; 1 - s(0) = 1/2; e^0 = 1.
    for kind, slope in (("forward_kl", 1.0), ("jensen_shannon", 0.5), ("alpha", 1.0)):
        ratio = torch.zeros(1, requires_grad=True)
        score = divergence_score(ratio, kind, 0.5)
        score.backward()
        assert (score.item(), ratio.grad.item()) == pytest.approx((0.0, slope))


def test_the_power_transform_tends_to_the_logarithm():
    mean = number(-0.7)

    assert power_transform(mean, 0.0) is mean
    assert power_transform(mean, 1e-6).item() == pytest.approx(-0.7, abs=1e-6)


def test_log_odds_of_a_certain_answer_are_finite_with_their_gradient():
    mean = torch.tensor([0.0, -1e-9, -0.5, -800.0], requires_grad=True)

    odds = log_odds(mean)
    odds.sum().backward()

    assert bool(odds.isfinite().all() & mean.grad.isfinite().all())
    # d/da (a - log(1 - e^a)) = 1 / (1 - e^a)
    assert mean.grad[2].item() == pytest.approx(1 / (1 - math.exp(-0.5)))


def test_tokens_beyond_the_shorter_answer_count_by_place_in_the_response():
    # A hole in front: the first two response tokens are -1 and -4, the third counts half.
    values = torch.tensor([[9.0, -1.0, 9.0, -4.0, -8.0]])
    mask = torch.tensor([[False, True, False, True, True]])

    assert ld_dpo_score(values, mask, torch.tensor([2]), 0.5).tolist() == [-9.0]


def test_the_sequential_kl_is_of_the_reference_to_the_policy():
    # One position: pi_ref = (3/4, 1/4), pi = (1/2, 1/2), and a token that neither has.
    ref = torch.tensor([[[0.75, 0.25, 0.0]]], dtype=torch.float64).log()
    policy = torch.tensor([[[0.5, 0.5, 0.0]]], dtype=torch.float64).log()

    result = forward_kl(policy, ref, torch.ones(1, 1, dtype=torch.bool))

    assert result.item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))


def test_exponents_above_40_are_cut():
    assert divergence_score(number(-41.0), "forward_kl", 0.5).item() == pytest.approx(
        -math.expm1(40)
    )
    assert divergence_score(number(-39.0), "forward_kl", 0.5).item() == pytest.approx(
        -math.expm1(39)
    )
    assert power_transform(number(-41.0), 1.0).item() == pytest.approx(-math.expm1(40))
    assert power_transform(number(-39.0), 1.0).item() == pytest.approx(-math.expm1(39))


def test_a_certain_answer_has_the_odds_of_one_in_ten_million_against_it():
    assert log_odds(number(0.0)).item() == pytest.approx(math.log(1e7), abs=1e-6)
    assert log_odds(number(-2e-7)).item() == pytest.approx(math.log(0.5e7), abs=1e-6)
