import pytest
import torch

from components.loss.regression import ScoreRegression
from rlcomp.metrics import recording
from rlcomp.testing import check_loss, make_batch


def rows():
    return make_batch(
        model_score=torch.tensor([1.0, 2.0, 9.0], requires_grad=True),
        reward=[0.5, 5.0, 0.0],
        reward_valid=[True, True, False],
    )


def test_the_loss_is_the_mean_square_of_the_errors_of_rated_answers():
    batch = rows()

    value = ScoreRegression()(batch)["loss"]
    value.backward()

    # Errors 0.5 and -3.
    assert value.item() == pytest.approx((0.25 + 9) / 2)
    assert batch["model_score"].grad.tolist() == [0.5, -3.0, 0.0]


def test_the_absolute_error_is_recorded():
    with recording() as ledger:
        ScoreRegression()(rows())

    assert ledger.means() == {"reward_model/absolute_error": 1.75}


def test_it_keeps_the_contract():
    check_loss(ScoreRegression())
