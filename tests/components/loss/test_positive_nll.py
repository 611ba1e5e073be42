import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.loss.imitation import PositiveNLL, SFTLoss
from components.loss.reduction import SequenceMean, TokenMean
from rlcomp.metrics import recording
from rlcomp.testing import check_loss, make_batch

nan = torch.nan


def make_loss(nll_coef=0.1, reduction=TokenMean):
    return PositiveNLL(nll_coef=nll_coef, reduction=reduction())


def rows(correct):
    """Three responses: log-probs -1, -2; -6; -3."""
    log_probs = torch.tensor([[nan, -1.0, -2.0], [nan, -6.0, nan], [nan, -3.0, nan]])
    return make_batch(
        response_mask=torch.tensor([[0, 1, 1], [0, 1, 0], [0, 1, 0]]).bool(),
        log_probs=log_probs.requires_grad_(),
        correct=correct,
    )


def test_the_right_responses_share_the_weight_as_if_there_were_no_others():
    batch = rows([True, False, True])

    loss = make_loss()(batch)["loss"]
    loss.backward()

    # 0.1 * (1 + 2 + 3) / 3.
    assert loss.item() == pytest.approx(0.2)
    third = -0.1 / 3
    expected = torch.tensor([[0, third, third], [0, 0, 0], [0, third, 0]])
    torch.testing.assert_close(batch["log_probs"].grad, expected)


def test_without_a_right_response_there_is_no_loss():
    batch = rows([False] * 3)

    loss = make_loss()(batch)["loss"]
    loss.backward()

    assert loss.item() == 0
    assert not batch["log_probs"].grad.any()


def test_a_wrong_response_without_any_probability_changes_nothing():
    batch = rows([True, False, True])
    batch["log_probs"] = torch.where(batch["log_probs"] == -6.0, -torch.inf, batch["log_probs"])

    assert make_loss()(batch)["loss"].item() == pytest.approx(0.2)


def test_the_denominator_is_that_of_the_whole_step():
    batch, loss = rows([True, False, True]), make_loss(1.0)
    whole = batch.copy().update(loss.prepare(batch))

    parts = [loss(whole[torch.tensor(part)])["loss"].item() for part in ([0], [1], [2])]

    assert parts == pytest.approx([1.0, 0.0, 1.0])  # 3 / 3, 0, 3 / 3


def test_the_mean_over_right_tokens_is_recorded():
    with recording() as ledger:
        make_loss()(rows([True, False, True]))

    assert ledger.means()["imitation/nll"] == pytest.approx(2.0)


@given(st.lists(st.booleans(), min_size=3, max_size=3), st.sampled_from([TokenMean, SequenceMean]))
def test_it_is_supervised_learning_of_the_right_rows(correct, reduction):
    batch = rows(correct)

    found = make_loss(1.0, reduction)(batch)["loss"]

    expected = SFTLoss(reduction=reduction())(batch[batch["correct"]])["loss"]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("reduction", [TokenMean, SequenceMean])
def test_it_keeps_the_contract_of_losses(reduction):
    check_loss(make_loss(reduction=reduction))
