"""Plackett-Luce loss: rankings of three answers by hand."""

import itertools
import math

import pytest
import torch
from tensordict import TensorDict

from components.loss.comparison import PlackettLuce
from rlcomp.errors import DataError
from rlcomp.functional.reward_model import bradley_terry_loss, plackett_luce_loss
from rlcomp.metrics import recording
from rlcomp.testing import check_loss

WEIGHTS = (1.0, 2.0, 5.0)  # e^r
SCORE = torch.tensor([WEIGHTS], dtype=torch.float64).log()


def likelihood(*rating):
    return math.exp(-plackett_luce_loss(SCORE, torch.tensor([rating])).item())


def rows(**more):
    # Two rankings, best first and last; the third has an answer without a reward.
    held = {
        "model_score": torch.tensor(WEIGHTS * 3).log().requires_grad_(),
        "reward": torch.tensor([3.0, 2, 1, 1, 2, 3, 7, 8, 9]),
        "group_id": torch.tensor([4, 4, 4, 2, 2, 2, 0, 0, 0]),
        "reward_valid": torch.tensor([True] * 8 + [False]),
        **more,
    }
    return TensorDict(held, [9])


def test_the_best_is_chosen_out_of_all_and_then_out_of_the_rest():
    assert likelihood(1.0, 3.0, 2.0) == pytest.approx(2 / 8 * 5 / 6)


def test_the_probabilities_of_all_orders_sum_to_one():
    assert sum(likelihood(*order) for order in itertools.permutations((1.0, 2, 3))) == (
        pytest.approx(1)
    )


def test_equal_ratings_are_ties_in_breslows_form():
    # The first two tie: each out of all three; then one is left.
    assert likelihood(2.0, 2.0, 1.0) == pytest.approx(1 / 8 * 2 / 8)
    assert likelihood(1.0, 1.0, 1.0) == 1


def test_two_answers_give_the_bradley_terry_loss():
    score = torch.tensor([[0.3, 1.1], [-2.0, 0.5]])

    found = plackett_luce_loss(score, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))

    wanted = bradley_terry_loss(torch.tensor([0.3, 0.5]), torch.tensor([1.1, -2.0]))
    torch.testing.assert_close(found, wanted)


def test_the_loss_is_the_mean_over_rankings_that_are_whole():
    batch = rows()

    value = PlackettLuce(group_size=3)(batch)["loss"]
    value.backward()

    first, second = 1 / 8 * 2 / 7, 5 / 8 * 2 / 3
    assert value.item() == pytest.approx(-(math.log(first) + math.log(second)) / 2)
    # A shift of all scores of a prompt changes nothing.
    sums = batch["model_score"].grad.view(3, 3).sum(1)
    torch.testing.assert_close(sums, torch.zeros(3), atol=1e-6, rtol=0)


def test_how_often_the_best_has_the_highest_score_is_recorded():
    with recording() as ledger:
        PlackettLuce(group_size=3)(rows())

    assert ledger.means() == {"reward_model/top": 0.5}


def test_rows_of_different_prompts_are_refused():
    with pytest.raises(DataError, match="3 adjacent rows are not the answers to one prompt"):
        PlackettLuce(group_size=3)(rows(group_id=torch.arange(9)))


def test_it_keeps_the_contract():
    draw = torch.Generator().manual_seed(0)
    entries = {
        "model_score": torch.randn(8, generator=draw, dtype=torch.float64),
        "reward": torch.randn(8, generator=draw, dtype=torch.float64),
        "group_id": torch.tensor([3, 3, 0, 0, 5, 5, 1, 1]),
    }
    check_loss(PlackettLuce(group_size=2), TensorDict(entries, [8]))
