"""Davidson loss of a reward model: a win, a tie and a pair without a label, by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.loss.comparison import BradleyTerry, Davidson
from rlcomp.functional.reward_model import davidson_loss
from rlcomp.metrics import recording
from rlcomp.testing import check_loss

SCORES = st.floats(-8, 8)


def pairs(**more):
    # e^(r / 2): 2 and 1 of a win, 3 and 1 of a tie whose first answer is called chosen.
    rows = {
        "model_score": (2 * torch.tensor([2.0, 1.0, 3.0, 1.0, 7.0, 9.0]).log()).requires_grad_(),
        "chosen": torch.tensor([True, False, True, False, True, False]),
        "tied": torch.tensor([False, False, True, True, False, False]),
        "reward_valid": torch.tensor([True, True, True, True, True, False]),
        **more,
    }
    return TensorDict(rows, batch_size=[6])


def davidson(**settings):
    return Davidson(**{"centring_coef": 0.0, "nu": 0.5, **settings})


# nu = 1/2: Z = 4 + 1 + 2/2 of the win, 9 + 1 + 3/2 of the tie.
WIN, TIE = math.log(6 / 4), math.log(11.5 / 1.5)


def test_the_loss_is_the_mean_over_pairs_that_have_a_label():
    value = davidson()(pairs())["loss"]

    assert value.item() == pytest.approx((WIN + TIE) / 2)


def test_ties_move_the_scores_together_and_nu_up():
    loss, rows = davidson(rate=3.0), pairs()

    loss(rows)["loss"].backward()

    # d/dr_w of log Z - r_w: P(w) + P(tie) / 2 - 1; of a tie P(w) + P(tie) / 2 - 1/2.
    win, tie = 4 / 6 + 0.5 / 6 - 1, (9 + 0.75) / 11.5 - 0.5
    slopes = torch.tensor([win, -win, tie, -tie, 0, 0]) / 2
    torch.testing.assert_close(rows["model_score"].grad, slopes)
    # d/d log nu: P(tie), minus 1 of the tie.
    assert loss.shift.grad.item() == pytest.approx(3 * (1 / 6 + 1.5 / 11.5 - 1) / 2)


def test_a_pair_without_a_label_reaches_neither_loss_nor_nu():
    loss = davidson()
    scores = torch.tensor([4.0, 1.0, 9.0, 1.0, math.nan, math.inf]).log()

    value = loss(pairs(model_score=scores.requires_grad_()))["loss"]
    value.backward()

    assert value.item() == pytest.approx((WIN + TIE) / 2)
    assert loss.shift.grad.isfinite()


def test_a_fixed_nu_is_no_parameter_of_the_learner():
    assert [p.requires_grad for p in davidson(learnt=False).parameters()] == [False]


def test_the_label_of_a_win_may_be_wrong_that_of_a_tie_not():
    value = davidson()(pairs(label_noise=torch.tensor([0.25, 0.25, 0.5, 0.5, 0, 0])))["loss"]

    assert value.item() == pytest.approx((0.75 * WIN + 0.25 * math.log(6) + TIE) / 2)


def test_weights_and_centring():
    weight = torch.tensor([1.0, 1, 3, 3, 9, 9])

    value = davidson(centring_coef=0.1)(pairs(pair_weight=weight))["loss"]

    win, tie = WIN + 0.1 * math.log(4) ** 2, TIE + 0.1 * math.log(9) ** 2
    assert value.item() == pytest.approx((win + 3 * tie) / 4)


def test_its_metrics_are_over_wins_or_over_ties():
    with recording() as ledger:
        davidson()(pairs())

    assert ledger.means() == pytest.approx(
        {
            "reward_model/accuracy": 1.0,
            "reward_model/margin": math.log(4),
            "reward_model/tied_gap": math.log(9),
            "reward_model/ties": 0.5,
            "reward_model/nu": 0.5,
        }
    )


def test_without_ties_and_a_vanishing_nu_it_is_bradley_terry():
    score = torch.tensor([1.5, -0.5, 2.0, 1.0], dtype=torch.float64)
    rows = TensorDict({"model_score": score, "chosen": torch.tensor([True, False] * 2)}, [4])

    value = davidson(nu=1e-30)(rows)["loss"]

    expected = BradleyTerry(centring_coef=0.0)(rows)["loss"]
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-12)


@given(SCORES, SCORES, st.floats(-5, 5))
def test_the_three_outcomes_share_the_probability(first, second, log_nu):
    one, other, log = (torch.tensor([x], dtype=torch.float64) for x in (first, second, log_nu))

    win, tie = davidson_loss(one, other, log[0])
    lost, again = davidson_loss(other, one, log[0])

    total = (-win).exp() + (-lost).exp() + (-tie).exp()
    torch.testing.assert_close(total, torch.ones(1, dtype=torch.float64))
    torch.testing.assert_close(tie, again)
    # Given that there is no tie, Bradley and Terry's odds.
    torch.testing.assert_close(lost - win, one - other)


def test_training_recovers_the_raters_nu():
    # Equal answers, of which raters tie 60 of 100: nu / (2 + nu) = .6 at nu = 3.
    tied = torch.arange(200) // 2 < 60
    rows = TensorDict(
        {
            "model_score": torch.zeros(200),
            "chosen": torch.arange(200) % 2 == 0,
            "tied": tied,
        },
        [200],
    )
    loss = davidson(nu=1.0)
    adam = torch.optim.Adam(loss.parameters(), lr=5e-4)

    for _ in range(200):
        adam.zero_grad()
        loss(rows)["loss"].backward()
        adam.step()

    assert loss.log_nu().exp().item() == pytest.approx(3.0, rel=0.02)


@pytest.mark.parametrize("settings", [{}, {"learnt": False}])
def test_it_keeps_the_contract(settings):
    check_loss(Davidson(label_noise=0.1, **settings))
