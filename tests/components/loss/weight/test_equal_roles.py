import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import FixedLength, SequenceMean, SequenceSum, TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.weight.rows import EqualRoleWeight
from rlcomp.testing import check_component, check_loss, make_batch
from rlcomp.testing.batch import example_batch

REDUCTIONS = (TokenMean(), SequenceMean(), SequenceSum(), FixedLength(length=5))
KEYS = ("log_probs", "old_log_probs", "advantage", "response_mask", "is_proposer")


def loss(reduction):
    return PolicyLoss(
        ratio=TokenRatio(),
        trust_region=Clip(clip_low=0.2, clip_high=0.28),
        reduction=reduction,
        weight={"equal_roles": EqualRoleWeight()},
    )


def batch(is_proposer=(True, False, False)):
    mask = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
    share = torch.where(mask, 1 / 6, torch.nan)  # what token_mean writes
    return make_batch(
        response_mask=mask,
        is_proposer=is_proposer,
        loss_weight=share,
    )


def test_the_worked_example():
    # The poser has 2 of 6 tokens and is to weigh 3 of them: 3/2; the others have 4: 3/4.
    weight = EqualRoleWeight()(batch())["token_weight"]

    want = torch.tensor([[1.5, 1.5, 0], [0.75, 0.75, 0.75], [0.75, 0, 0]])
    torch.testing.assert_close(weight, want)


@pytest.mark.parametrize("is_proposer", [(True, True, True), (False, False, False)])
def test_a_role_that_is_alone_keeps_its_weight(is_proposer):
    weight = EqualRoleWeight()(batch(is_proposer))["token_weight"]

    assert weight.tolist() == batch()["response_mask"].float().tolist()


def test_a_role_whose_rows_are_masked_leaves_the_other_as_it_is():
    rows = batch()
    rows["response_mask"][0] = False

    assert EqualRoleWeight()(rows)["token_weight"][1:].max().item() == 1.0


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda part: type(part).__name__)
def test_both_roles_have_equal_weight_under_every_reduction(reduction):
    rows = example_batch(KEYS, dtype=torch.float64)
    rows["old_log_probs"] = rows["log_probs"].clone()
    rows["advantage"] = torch.ones_like(rows["advantage"])
    rows["log_probs"].requires_grad_()

    loss(reduction)(rows)["loss"].backward()

    # At ratio 1 and advantage 1 the gradient of a token is its weight in the loss.
    weight = -rows["log_probs"].grad
    whole = float(reduction(rows.copy())["loss_weight"].sum())
    for role in (rows["is_proposer"], ~rows["is_proposer"]):
        assert float(weight[role].sum()) == pytest.approx(whole / 2, abs=1e-6)


@given(st.integers(0, 30), st.integers(1, 7))
def test_roles_are_weighed_over_the_whole_optimiser_step(seed, cut):
    rows = example_batch(KEYS, seed=seed, dtype=torch.float64)
    part = loss(SequenceMean())

    whole = part(rows)["loss"]
    prepared = rows.copy().update(part.prepare(rows))
    pieces = [part(prepared[:cut])["loss"], part(prepared[cut:])["loss"]]

    torch.testing.assert_close(torch.stack(pieces).sum(), whole, atol=1e-12, rtol=0)


def test_it_needs_no_look_at_the_model():
    assert not loss(TokenMean()).needs_full_batch_forward


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda part: type(part).__name__)
def test_it_keeps_the_contract(reduction):
    check_component(EqualRoleWeight())
    check_loss(loss(reduction))
