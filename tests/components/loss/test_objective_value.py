import pytest
import torch
from tensordict import TensorDict

from components.loss.reduction import TokenMean
from components.loss.value import ObjectiveValueLoss
from rlcomp.metrics import recording
from rlcomp.testing import check_loss


def make_loss(clip=0.2, value_coef=1.0):
    return ObjectiveValueLoss(clip=clip, value_coef=value_coef, reduction=TokenMean())


def rows():
    """Objective a: the critic said 0, returns are 1; b: it said 1, returns are 0 and 3 and 2."""
    nan = torch.nan
    values = {
        "objective_values": ([[nan, 0.1, 0.5], [nan, -0.5, nan]], [[nan, 1, 1], [nan, 2, nan]]),
        "old_objective_values": ([[nan, 0, 0], [nan, 0, nan]], [[nan, 1, 1], [nan, 1, nan]]),
        "objective_returns": ([[nan, 1, 1], [nan, 1, nan]], [[nan, 0, 3], [nan, 2, nan]]),
    }
    entries = {key: torch.tensor(pair).movedim(0, 2).contiguous() for key, pair in values.items()}
    entries["objective_values"].requires_grad_()
    entries["response_mask"] = torch.tensor([[0, 1, 1], [0, 1, 0]]).bool()
    entries["objective_present"] = torch.ones(2, 2).bool()
    return TensorDict(entries, batch_size=[2])


def test_it_keeps_the_contract_of_losses():
    check_loss(make_loss())
    check_loss(make_loss(clip=None, value_coef=0.5))


def test_the_losses_of_the_objectives_are_added():
    batch = rows()

    loss = make_loss()(batch)["loss"]
    loss.backward()

    # a: halves of .9^2, .8^2 (cut at .2), 1.5^2. b: halves of 1, 4, and .8^2 (2 is cut at 1.2).
    assert loss.item() == pytest.approx((0.405 + 0.32 + 1.125 + 0.5 + 2 + 0.32) / 3)
    of_a, of_b = batch["objective_values"].grad.unbind(2)
    torch.testing.assert_close(of_a, torch.tensor([[0, -0.9, 0], [0, -1.5, 0]]) / 3)
    torch.testing.assert_close(of_b, torch.tensor([[0, 1.0, -2], [0, 0, 0]]) / 3)


def test_without_a_clip_every_value_is_pulled_to_its_return():
    loss = make_loss(clip=None, value_coef=0.5)(rows())["loss"]

    assert loss.item() == pytest.approx(0.5 * (0.405 + 0.125 + 1.125 + 0.5 + 2 + 0) / 3)


def test_the_explained_variance_is_of_the_critic_before_the_update():
    batch = rows().detach()
    # It knew the returns of b; those of a do not vary.
    batch["old_objective_values"] = batch["objective_returns"].clone()

    with recording() as ledger:
        make_loss().prepare(batch)

    assert ledger.means() == {"value/explained_variance": 1.0}


def test_its_metrics_are_means_over_the_objectives():
    with recording() as ledger:
        part = make_loss()
        part(rows().update(part.prepare(rows())))

    # 1 of 3 values of each is cut. Explained variance: a's returns do not vary, so only b's counts:
    # returns 0, 3, 2 less the critic's 1 vary as they did: 1 - 1.
    assert ledger.means()["value/clip_fraction"] == pytest.approx(1 / 3)
    assert ledger.means()["value/explained_variance"] == pytest.approx(0, abs=1e-6)


def test_a_row_that_lacks_an_objective_neither_pulls_at_its_head_nor_counts_in_its_mean():
    batch = rows()
    batch["objective_present"] = torch.tensor([[True, True], [True, False]])

    with recording() as ledger:
        part = make_loss()
        loss = part(batch.update(part.prepare(batch.detach())))["loss"]
        loss.backward()

    # a over its three tokens as before; b over the two of the first row: halves of 1 and 4.
    assert loss.item() == pytest.approx((0.405 + 0.32 + 1.125) / 3 + (0.5 + 2) / 2)
    of_a, of_b = batch["objective_values"].grad.unbind(2)
    torch.testing.assert_close(of_a, torch.tensor([[0, -0.9, 0], [0, -1.5, 0]]) / 3)
    torch.testing.assert_close(of_b, torch.tensor([[0, 1.0, -2], [0, 0, 0]]) / 2)
    # Of the five values there are, a's 0.5 is cut.
    assert ledger.means()["value/clip_fraction"] == pytest.approx(1 / 5)
