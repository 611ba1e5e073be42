"""Preference losses of pairs: three pairs of unequal lengths by hand, the last without a label."""

import math

import pytest
import torch
from tensordict import TensorDict

from components.loss.link import Hinge, Sigmoid
from components.loss.preference import PreferenceLoss
from components.loss.score import LengthDesensitisedLogRatio, LogRatio
from rlcomp.errors import ConfigError, DataError
from rlcomp.metrics import recording
from rlcomp.testing import check_loss


def pairs(**more):
    # Sums over the response: c = -3, r = -1, c_ref = -4, r_ref = -3; in the second pair, whose
    # chosen side is the last, c = -2, r = -6, c_ref = -2, r_ref = -1. m = -1 and 5.
    log_probs = torch.tensor(
        [[9.0, -1, -2], [9, -1, 9], [9, -6, 9], [9, -1, -1], [9, -7, 9], [0] * 3]
    )
    reference = torch.tensor(
        [[9.0, -2, -2], [9, -3, 9], [9, -1, 9], [9, -2, 0], [9, -1, 9], [0] * 3]
    )
    mask = torch.tensor([[0, 1, 1], [0, 1, 0], [0, 1, 0], [0, 1, 1], [0, 1, 0], [0, 1, 0]]).bool()
    rows = {
        "log_probs": log_probs.requires_grad_(),
        "ref_log_probs": reference,
        "response_mask": mask,
        "chosen": torch.tensor([True, False, False, True, True, False]),
        "reward_valid": torch.tensor([True, True, True, True, True, False]),
        **more,
    }
    return TensorDict(rows, batch_size=[6])


def dpo(**more):
    return PreferenceLoss(score=LogRatio(), link=Sigmoid(beta=0.5), **more)


def softplus(value):
    return math.log1p(math.exp(value))


FIRST, SECOND = softplus(0.5), softplus(-2.5)  # beta m = -0.5 and 2.5


def test_the_loss_is_the_mean_over_pairs_that_have_a_label():
    rows = pairs()

    value = dpo()(rows)["loss"]
    value.backward()

    assert value.item() == pytest.approx((FIRST + SECOND) / 2)
    # d loss / d c = -beta s(-beta m) / 2 at each of its tokens, the opposite for r.
    slopes = [0.25 / (1 + math.exp(z)) for z in (-0.5, 2.5)]
    signs = torch.tensor([-slopes[0], slopes[0], slopes[1], -slopes[1], 0, 0])
    torch.testing.assert_close(rows["log_probs"].grad, rows["response_mask"] * signs[:, None])


def test_pairs_count_by_their_weights():
    weight = torch.tensor([1.0, 1, 3, 3, 9, 9])

    value = dpo()(pairs(pair_weight=weight))["loss"]

    assert value.item() == pytest.approx((FIRST + 3 * SECOND) / 4)


def test_noise_of_a_row_takes_the_place_of_that_of_all():
    noise = torch.tensor([0.25, 0.25, 0, 0, 0, 0])
    first = 0.75 * FIRST + 0.25 * softplus(-0.5)

    value = dpo(label_noise=0.4)(pairs(label_noise=noise))["loss"]

    assert value.item() == pytest.approx((first + SECOND) / 2)


def test_without_noise_of_rows_all_have_the_same():
    turned = (softplus(-0.5) + softplus(2.5)) / 2

    smoothed = dpo(label_noise=0.25)(pairs())["loss"]
    unbiased = dpo(label_noise=0.25, unbiased=True)(pairs())["loss"]

    right = (FIRST + SECOND) / 2
    assert smoothed.item() == pytest.approx(0.75 * right + 0.25 * turned)
    assert unbiased.item() == pytest.approx((0.75 * right - 0.25 * turned) / 0.5)


def test_the_likelihood_of_chosen_answers_is_a_mean_over_their_tokens():
    # Tokens -1, -2 of the first and -1, -1 of the second: 5 / 4 nats.
    value = dpo(pair_coef=0.1, nll_coef=2.0)(pairs())["loss"]

    assert value.item() == pytest.approx(0.1 * (FIRST + SECOND) / 2 + 2 * 5 / 4)


def test_tokens_beyond_the_shorter_answer_of_the_pair_count_less():
    # log-ratios of the tokens: c = 1, 0 and r = 2; c = 1, -1 and r = -5; from the second on by 1/4.
    loss = PreferenceLoss(score=LengthDesensitisedLogRatio(alpha=0.25), link=Hinge(beta=0.5))

    value = loss(pairs())["loss"]

    # m = 1 + 0 - 2 = -1 and 1 - 0.25 + 5 = 5.75.
    assert value.item() == pytest.approx((1.5 + 0) / 2)


def test_both_likelihoods_and_margins_are_recorded():
    with recording() as ledger:
        dpo()(pairs())

    assert ledger.means() == pytest.approx(
        {
            "preference/chosen_log_prob": -2.5,
            "preference/rejected_log_prob": -3.5,
            "preference/chosen_change": 0.5,
            "preference/rejected_change": -1.5,
            "preference/margin": 2.0,
            "preference/accuracy": 0.5,
            "preference/chosen_nll": 5 / 4,
        }
    )


def test_a_tie_is_no_right_answer():
    rows = pairs()
    rows["log_probs"] = rows["ref_log_probs"]

    with recording() as ledger:
        dpo()(rows)

    assert ledger.means()["preference/accuracy"] == 0


def test_a_pair_of_two_chosen_answers_is_refused():
    rows = pairs(chosen=torch.tensor([True, False, True, True, True, False]))

    with pytest.raises(DataError, match="rows 2 and 3 are a pair of which 2 are chosen"):
        dpo()(rows)


def test_labels_that_say_nothing_are_refused_at_once():
    with pytest.raises(ConfigError, match=r"loss\.label_noise is 0\.5 and loss\.unbiased is true"):
        dpo(label_noise=0.5, unbiased=True)


@pytest.mark.parametrize("more", [{}, {"label_noise": 0.1, "unbiased": True, "nll_coef": 0.5}])
def test_it_keeps_the_contract(more):
    check_loss(dpo(**more))
