"""KTO: single answers by hand, three desirable and one not, and one without a label."""

import math

import pytest
import torch

from components.loss.preference import KTOLoss
from components.loss.score import LogRatio
from rlcomp.metrics import recording
from rlcomp.testing import check_loss, make_batch


def rows(**more):
    # h = 1, -2, 3, 0.5 of one or two tokens; the last does not count.
    log_probs = torch.tensor([[-1.0, -2], [-5, 9], [-1, 9], [-2, 9], [-9, 9]])
    reference = torch.tensor([[-2.0, -2], [-3, 9], [-4, 9], [-2.5, 9], [-1, 9]])
    return make_batch(
        log_probs=log_probs,
        ref_log_probs=reference,
        response_mask=torch.tensor([[1, 1], [1, 0], [1, 0], [1, 0], [1, 0]]).bool(),
        chosen=[True, False, True, True, True],
        kl_baseline=torch.full((5,), 0.5),
        reward_valid=[True, True, True, True, False],
        **more,
    )


def s(value):
    return 1 / (1 + math.exp(-value))


# lambda (1 - s(beta y (h - z0))) with beta = 0.2.
EACH = [1.5 * s(-0.2 * 0.5), 0.8 * s(0.2 * -2.5), 1.5 * s(-0.2 * 2.5), 1.5 * s(0.0)]


def kto():
    return KTOLoss(score=LogRatio(), beta=0.2, desirable_weight=1.5, undesirable_weight=0.8)


def test_the_loss_is_the_mean_over_answers_that_have_a_label():
    assert kto()(rows())["loss"].item() == pytest.approx(sum(EACH) / 4)


def test_answers_count_by_their_weights():
    value = kto()(rows(pair_weight=torch.tensor([1.0, 3, 0, 0, 9])))["loss"]

    assert value.item() == pytest.approx((EACH[0] + 3 * EACH[1]) / 4)


def test_likelihoods_of_both_kinds_and_the_reference_point_are_recorded():
    with recording() as ledger:
        kto()(rows())

    assert ledger.means() == pytest.approx(
        {
            "preference/chosen_log_prob": -2.0,  # -3, -1, -2
            "preference/rejected_log_prob": -5.0,
            "preference/chosen_change": 1.5,  # 1, 3, 0.5
            "preference/rejected_change": -2.0,
            "preference/baseline": 0.5,
        }
    )


def test_it_keeps_the_contract():
    check_loss(kto())
