"""Loss weight of trees: by hand; the total stays, in however many micro-batches."""

import torch

from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import SequenceSum
from components.loss.trust_region.clip import Clip
from components.loss.weight.rows import BranchShareWeight
from rlcomp.testing import check_component, check_loss, make_batch
from rlcomp.testing.batch import example_batch

KEYS = ("log_probs", "old_log_probs", "advantage", "response_mask", "branch_share")


def test_the_worked_example():
    mask = torch.tensor([[True, True], [True, False], [True, False], [False, False]])
    share = torch.tensor([0.5, 0.5, 1.0, 1.0])
    batch = make_batch(response_mask=mask, branch_share=share)

    weight = BranchShareWeight()(batch)["token_weight"]

    # Three rows of two trees: times 3 / 2; a row without a response counts nowhere.
    assert weight.tolist() == [[0.75, 0.75], [0.75, 0.0], [1.5, 0.0], [0.0, 0.0]]


def test_without_branches_it_is_one():
    mask = torch.ones(3, 2).bool()
    batch = make_batch(response_mask=mask, branch_share=torch.ones(3))

    assert torch.equal(BranchShareWeight()(batch)["token_weight"], mask.float())


def test_a_loss_with_it_keeps_the_contract():
    check_component(BranchShareWeight())
    loss = PolicyLoss(
        ratio=TokenRatio(),
        trust_region=Clip(clip_low=0.2, clip_high=0.2),
        reduction=SequenceSum(),
        weight={"branch_share": BranchShareWeight()},
    )
    check_loss(loss, example_batch(KEYS))
