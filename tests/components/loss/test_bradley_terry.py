"""Bradley-Terry loss of a reward model: three pairs by hand, the last without a label."""

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tensordict import TensorDict

from components.loss.comparison import BradleyTerry
from rlcomp.errors import DataError
from rlcomp.metrics import recording
from rlcomp.testing import check_loss

GOLDEN = Path(__file__).parents[2] / "golden" / "preference"
EXACT = {"rtol": 1e-9, "atol": 1e-11}


def pairs(**more):
    # r_w - r_l = 2 and -1, in the second pair the chosen answer is the last.
    rows = {
        "model_score": torch.tensor([1.5, -0.5, 2.0, 1.0, 7.0, 9.0], requires_grad=True),
        "chosen": torch.tensor([True, False, False, True, True, False]),
        "reward_valid": torch.tensor([True, True, True, True, True, False]),
        **more,
    }
    return TensorDict(rows, batch_size=[6])


def bradley_terry(**settings):
    return BradleyTerry(**{"centring_coef": 0.0, **settings})


def softplus(value):
    return math.log1p(math.exp(value))


FIRST, SECOND = softplus(-2), softplus(1)


def test_the_loss_is_the_mean_over_pairs_that_have_a_label():
    rows = pairs()

    value = bradley_terry()(rows)["loss"]
    value.backward()

    assert value.item() == pytest.approx((FIRST + SECOND) / 2)
    # -s(-d) / 2 at the chosen answer, the opposite at the rejected one.
    first, second = 0.5 / (1 + math.exp(2)), 0.5 / (1 + math.exp(-1))
    slopes = torch.tensor([-first, first, second, -second, 0, 0])
    torch.testing.assert_close(rows["model_score"].grad, slopes)


def test_scores_of_a_pair_without_a_label_may_be_anything():
    rows = pairs(model_score=torch.tensor([1.5, -0.5, 2, 1, math.nan, math.inf]))

    assert bradley_terry()(rows)["loss"].item() == pytest.approx((FIRST + SECOND) / 2)


def test_the_margin_is_the_target_of_the_score_difference():
    of_all = bradley_terry(margin=0.5)(pairs())["loss"]
    of_each = bradley_terry(margin=9.0)(
        pairs(pair_margin=torch.tensor([2.0, 2.0, 0.0, 0.0, 1.0, 1.0]))
    )["loss"]

    assert of_all.item() == pytest.approx((softplus(-1.5) + softplus(1.5)) / 2)
    assert of_each.item() == pytest.approx((math.log(2) + SECOND) / 2)


def test_a_soft_label_is_met_where_the_scores_have_its_log_odds():
    # P = 3/4 at r_w - r_l = log 3.
    score = torch.tensor([math.log(3), 0.0], requires_grad=True)
    rows = TensorDict({"model_score": score, "chosen": torch.tensor([True, False])}, [2])

    bradley_terry(label_noise=0.25)(rows)["loss"].backward()

    torch.testing.assert_close(score.grad, torch.zeros(2), atol=1e-7, rtol=0)


def test_noise_of_a_row_takes_the_place_of_that_of_all():
    noise = torch.tensor([0.25, 0.25, 0, 0, 0, 0])

    value = bradley_terry(label_noise=0.4)(pairs(label_noise=noise))["loss"]

    assert value.item() == pytest.approx((0.75 * FIRST + 0.25 * softplus(2) + SECOND) / 2)


def test_pairs_count_by_their_weights():
    weight = torch.tensor([1.0, 1, 3, 3, 9, 9])

    value = bradley_terry()(pairs(pair_weight=weight))["loss"]

    assert value.item() == pytest.approx((FIRST + 3 * SECOND) / 4)


def test_centring_pulls_the_mean_of_a_pair_to_zero():
    # Sums 1 and 3.
    value = bradley_terry(centring_coef=0.1)(pairs())["loss"]

    assert value.item() == pytest.approx((FIRST + SECOND) / 2 + 0.1 * (1 + 9) / 2)


def test_accuracy_margin_and_scores_are_recorded():
    with recording() as ledger:
        bradley_terry()(pairs())

    assert ledger.means() == pytest.approx(
        {
            "reward_model/accuracy": 0.5,
            "reward_model/margin": 0.5,
            "reward_model/chosen": 1.25,
            "reward_model/rejected": 0.75,
        }
    )


def test_a_pair_of_two_chosen_answers_is_refused():
    with pytest.raises(DataError, match="rows 0 and 1 are a pair of which 2 are chosen"):
        bradley_terry()(pairs(chosen=torch.ones(6, dtype=torch.bool)))


@pytest.mark.parametrize(
    ("case", "centring"),
    [
        ("bt", 0.0),
        ("bt_margin", 0.0),
        ("bt_center", 0.01),
        ("bt_margin_center", 0.05),
        ("bt_extreme", 0.0),
    ],
)
def test_it_is_that_of_trl(case, centring):
    # Theirs: all chosen answers, then all rejected ones.
    held = load_file(GOLDEN / f"trl_rm_{case}.safetensors")
    order = torch.arange(12).view(2, 6).t().flatten()
    score = held["in.rewards"][order].requires_grad_()
    rows = {"model_score": score, "chosen": torch.arange(12) % 2 == 0}
    if "in.margin" in held:
        rows["pair_margin"] = held["in.margin"].repeat_interleave(2)
    loss = bradley_terry(centring_coef=centring)
    batch = TensorDict(rows, [12])
    batch["row_weight"] = torch.full((12,), 1 / 6, dtype=torch.float64)

    value = loss(batch)["loss"]
    value.backward()

    torch.testing.assert_close(value, held["out.loss"], **EXACT)
    torch.testing.assert_close(score.grad, held["out.grad_rewards"][order], **EXACT)


@pytest.mark.parametrize("case", ["0", "1", "margin_0", "margin_1"])
def test_it_is_that_of_openrlhf(case):
    held = load_file(GOLDEN / f"openrlhf_PairWiseLoss_{case}.safetensors")
    score = torch.stack([held["in.chosen"], held["in.rejected"]], 1).flatten().requires_grad_()
    rows = {"model_score": score, "chosen": torch.arange(12) % 2 == 0}
    if case.startswith("margin"):
        rows["pair_margin"] = held["in.margin"].repeat_interleave(2)
    rows["row_weight"] = torch.full((12,), 1 / 6, dtype=torch.float64)

    value = bradley_terry()(TensorDict(rows, [12]))["loss"]
    value.backward()

    slopes = torch.stack([held["out.grad_chosen"], held["out.grad_rejected"]], 1).flatten()
    torch.testing.assert_close(value, held["out.loss"], **EXACT)
    torch.testing.assert_close(score.grad, slopes, **EXACT)


@pytest.mark.parametrize("settings", [{}, {"margin": 0.5, "centring_coef": 0.1}])
def test_it_keeps_the_contract(settings):
    check_loss(bradley_terry(label_noise=0.1, **settings))


def test_a_label_that_says_nothing_is_neither_right_nor_wrong():
    tie = torch.tensor([0.5, 0.5, 0, 0, 0, 0])

    with recording() as ledger:
        value = bradley_terry()(pairs(label_noise=tie))["loss"]

    assert value.item() == pytest.approx(((FIRST + softplus(2)) / 2 + SECOND) / 2)
    assert ledger.means()["reward_model/accuracy"] == 0
