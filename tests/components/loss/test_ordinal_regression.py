"""Ordinal regression of a reward model: three levels by hand, and the laws of the model."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.loss.regression import OrdinalRegression
from rlcomp.errors import ConfigError, DataError
from rlcomp.functional.reward_model import ordinal_log_probs
from rlcomp.metrics import recording
from rlcomp.testing import check_loss, example_batch


def answers(**more):
    # Thresholds of three levels start at -log 2 and log 2: a score of log 2 makes the cumulative
    # odds 1/4 and 1, so that the levels have 1/5, 3/10 and 1/2.
    rows = {
        "model_score": torch.tensor([math.log(2), math.log(2), 0.0]).requires_grad_(),
        "reward": torch.tensor([5.0, 3.0, 77.0]),
        "reward_valid": torch.tensor([True, True, False]),
        **more,
    }
    return TensorDict(rows, batch_size=[3])


def ordinal(**settings):
    return OrdinalRegression(**{"levels": [1, 3, 5], **settings})


def test_the_loss_is_the_mean_over_answers_with_a_rating():
    value = ordinal()(answers())["loss"]

    assert value.item() == pytest.approx(-(math.log(0.5) + math.log(0.3)) / 2)


def test_scores_and_thresholds_move_against_each_other():
    loss, rows = ordinal(rate=2.0), answers()

    loss(rows)["loss"].backward()

    # d/dr of -log P: of the top level -s(theta_2 - r) = -1/2; of the middle one
    # 1 - s(theta_2 - r) - s(theta_1 - r) = 1/2 - 1/5.
    torch.testing.assert_close(rows["model_score"].grad, torch.tensor([-0.5, 0.3, 0]) / 2)
    lowest, gap = loss.moved.grad.tolist()
    # theta_1 moves all thresholds, which is the scores moving the other way; times the rate.
    assert lowest == pytest.approx(2 * 0.2 / 2)
    # Of the gap 2 log 2 alone: the top level gains 1/2 of its log; the middle one loses
    # s'(log 2 - r) / P = 1/4 / 0.3.
    assert gap == pytest.approx(2 * 2 * math.log(2) * (0.5 - 0.25 / 0.3) / 2)


def test_its_metrics_by_hand():
    with recording() as ledger:
        ordinal()(answers())

    assert ledger.means() == pytest.approx(
        {
            "reward_model/exact": 0.5,
            "reward_model/lowest_threshold": -math.log(2),
            "reward_model/highest_threshold": math.log(2),
        }
    )


def test_an_answer_without_a_rating_reaches_no_threshold():
    loss = ordinal()
    rows = answers(model_score=torch.tensor([0.0, 0.0, math.nan]).requires_grad_())

    loss(rows)["loss"].backward()

    assert loss.moved.grad.isfinite().all()


@pytest.mark.parametrize("rating", [4.0, math.nan])
def test_a_rating_that_is_no_level_is_refused(rating):
    with pytest.raises(DataError, match=r"row 1 has the rating .*not in loss.levels, \[1, 3, 5\]"):
        ordinal()(answers(reward=torch.tensor([5.0, rating, 0])))


@pytest.mark.parametrize("levels", [[1], [1, 1], [2, 1]])
def test_levels_that_do_not_rise_are_refused(levels):
    with pytest.raises(ConfigError, match="increasing order, such as"):
        OrdinalRegression(levels=levels)


@given(st.floats(-60, 60), st.floats(-3, 3), st.lists(st.floats(0.01, 5), max_size=4))
def test_levels_share_the_probability_and_a_score_moves_all_odds_alike(score, first, gaps):
    start, steps = torch.tensor(first, dtype=torch.float64), torch.tensor(gaps, dtype=torch.float64)
    scores = torch.tensor([score, 0.0], dtype=torch.float64)

    levels = ordinal_log_probs(scores, start, steps)

    assert levels.isfinite().all()
    torch.testing.assert_close(levels.exp().sum(1), torch.ones(2, dtype=torch.float64))
    if abs(score) < 20:
        at_most = levels.logcumsumexp(1)[:, :-1]
        above = levels.flip(1).logcumsumexp(1).flip(1)[:, 1:]
        odds = at_most - above
        torch.testing.assert_close(odds[1] - odds[0], scores[:1].expand(len(gaps) + 1))


def test_two_levels_give_logistic_regression():
    score = torch.tensor([0.7, -1.2])

    levels = ordinal_log_probs(score, torch.tensor(0.0), torch.zeros(0))

    torch.testing.assert_close(levels[:, 1], score.sigmoid().log())


def test_training_recovers_the_thresholds_of_the_ratings():
    # Equal answers: of 100 ratings 10, 60 and 30 are at the three levels.
    ratings = torch.tensor([1.0] * 10 + [3.0] * 60 + [5.0] * 30)
    rows = TensorDict({"model_score": torch.zeros(100), "reward": ratings}, [100])
    loss = ordinal()
    adam = torch.optim.Adam(loss.parameters(), lr=5e-4)

    for _ in range(200):
        adam.zero_grad()
        loss(rows)["loss"].backward()
        adam.step()

    first, gaps = loss.thresholds()
    assert first.item() == pytest.approx(math.log(1 / 9), abs=0.02)
    assert (first + gaps).item() == pytest.approx(math.log(7 / 3), abs=0.02)


def test_it_keeps_the_contract():
    loss = ordinal()
    batch = example_batch((*loss.reads, *loss.optional), dtype=torch.float64)
    batch["reward"] = torch.tensor([1.0, 3.0, 5.0])[torch.arange(len(batch)) % 3].double()
    check_loss(loss, batch)


def test_a_rating_may_be_a_rounding_error_off_its_level():
    near = ordinal()(answers(reward=torch.tensor([5.0, 3.00009, 0])))["loss"]

    assert near.item() == ordinal()(answers(reward=torch.tensor([5.0, 3.0, 0])))["loss"].item()
    with pytest.raises(DataError, match=r"row 1 has the rating 3\.00012"):
        ordinal()(answers(reward=torch.tensor([5.0, 3.00012, 0])))
