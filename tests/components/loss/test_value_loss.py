import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.loss.reduction import SequenceMean, TokenMean
from components.loss.value import ValueLoss
from rlcomp.metrics import recording
from rlcomp.testing import check_loss, make_batch

nan = torch.nan


def make_loss(*, clip=0.5, value_coef=1.0, reduction=TokenMean):
    return ValueLoss(clip=clip, value_coef=value_coef, reduction=reduction())


def rows(value, old_value, returns, mask):
    return make_batch(
        value=torch.as_tensor(value).requires_grad_(),
        old_value=torch.as_tensor(old_value),
        returns=torch.as_tensor(returns),
        response_mask=torch.as_tensor(mask).bool(),
    )


def three_tokens():
    """The critic said 0, the return is 1; NaN outside the response."""
    return rows(
        [[nan, 0.1, 0.5], [nan, -0.5, nan]],
        [[nan, 0.0, 0.0], [nan, 0.0, nan]],
        [[nan, 1.0, 1.0], [nan, 1.0, nan]],
        [[0, 1, 1], [0, 1, 0]],
    )


def test_three_tokens_by_hand():
    batch = three_tokens()

    loss = make_loss(clip=0.2)(batch)["loss"]
    loss.backward()

    # Halves of 0.9^2, 0.8^2 (cut at 0.2) and 1.5^2, shared by three; no gradient where cut.
    assert loss.item() == pytest.approx((0.405 + 0.32 + 1.125) / 3)
    expected = torch.tensor([[0, -0.9, 0], [0, -1.5, 0]]) / 3
    torch.testing.assert_close(batch["value"].grad, expected)


def test_without_a_clip_every_token_is_pulled_to_its_return():
    batch = three_tokens()

    loss = make_loss(clip=None, value_coef=0.5)(batch)["loss"]
    loss.backward()

    assert loss.item() == pytest.approx(0.5 * (0.405 + 0.125 + 1.125) / 3)
    expected = 0.5 * torch.tensor([[0, -0.9, -0.5], [0, -1.5, 0]]) / 3
    torch.testing.assert_close(batch["value"].grad, expected)


def test_the_share_of_cut_tokens_is_recorded():
    with recording() as ledger:
        make_loss(clip=0.2)(three_tokens())

    assert ledger.means()["value/clip_fraction"] == pytest.approx(1 / 3)


def test_explained_variance_is_of_the_critic_before_the_update_over_the_whole_step():
    # Returns 0, 2, 4 have variance 8/3; less old values 0, 1, 2 they have 2/3. In two parts there
    # would be nothing to explain in the second one.
    batch = rows([[9.0, 9], [9, 9]], [[0.0, 1], [2, 9]], [[0.0, 2], [4, 9]], [[1, 1], [1, 0]])
    loss = make_loss()

    with recording() as ledger:
        whole = batch.copy().update(loss.prepare(batch))
        for part in ([0], [1]):
            loss(whole[torch.tensor(part)])

    assert ledger.means()["value/explained_variance"] == pytest.approx(0.75)
    assert ledger.counts["value/explained_variance"] == 1


def test_equal_returns_are_no_number_in_the_record():
    batch = rows([[0.5, 0.5]], [[0.1, 0.9]], [[1.0, 1.0]], [[1, 1]])

    with recording() as ledger:
        make_loss().prepare(batch)

    assert "value/explained_variance" not in ledger.means()


@pytest.mark.parametrize("clip", [None, 0.2, 0.5])
@pytest.mark.parametrize("reduction", [TokenMean, SequenceMean])
def test_it_keeps_the_contract_of_losses(clip, reduction):
    check_loss(make_loss(clip=clip, reduction=reduction))


@given(st.integers(0, 1000), st.sampled_from([None, 0.3]))
def test_a_critic_that_is_right_and_stays_has_no_loss(seed, clip):
    draw = torch.Generator().manual_seed(seed)
    returns = torch.randn(4, 6, generator=draw, dtype=torch.float64)
    mask = torch.rand(4, 6, generator=draw) < 0.6
    mask[1] = False
    batch = rows(returns.clone(), returns.clone(), returns, mask)

    loss = make_loss(clip=clip)(batch)["loss"]
    loss.backward()

    assert loss.item() == 0
    assert not batch["value"].grad.any()
