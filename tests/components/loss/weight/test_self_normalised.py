import pytest
import torch

from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.weight.importance import SelfNormalisedWeight
from rlcomp.testing import make_batch
from rlcomp.testing.batch import example_batch


def batch():
    # Ratios e^log(3) = 3 and 1 | 2; sequences 3 | 2.
    return make_batch(
        response_mask=[[True, True], [True, False]],
        old_log_probs=torch.tensor([[3.0, 1.0], [2.0, 1.0]]).log(),
        rollout_log_probs=torch.zeros(2, 2),
    )


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("token", [[1.5, 0.5], [1.0, 0.0]]),  # mean of 3, 1, 2
        ("sequence", [[1.2, 1.2], [0.8, 0.0]]),  # mean of 3, 2
    ],
)
def test_weights_are_divided_by_their_mean(level, expected):
    weight = SelfNormalisedWeight(level=level, cap=5.0)(batch())["token_weight"]

    torch.testing.assert_close(weight, torch.tensor(expected))


def test_the_mean_is_that_of_the_whole_optimiser_step():
    keys = ("log_probs", "old_log_probs", "rollout_log_probs", "advantage", "response_mask")
    rows = example_batch(keys, dtype=torch.float64)
    loss = PolicyLoss(
        ratio=TokenRatio(),
        trust_region=Clip(),
        reduction=TokenMean(),
        weight={"tis": SelfNormalisedWeight()},
    )

    whole = loss(rows)["loss"]
    prepared = rows.copy().update(loss.prepare(rows))
    parts = [loss(prepared[:3])["loss"], loss(prepared[3:])["loss"]]

    torch.testing.assert_close(torch.stack(parts).sum(), whole, atol=1e-12, rtol=0)


def test_nothing_to_normalise_leaves_nothing():
    rows = batch()
    rows["response_mask"] = torch.zeros(2, 2, dtype=torch.bool)

    assert SelfNormalisedWeight()(rows)["token_weight"].tolist() == [[0, 0], [0, 0]]
