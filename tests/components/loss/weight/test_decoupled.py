"""Decoupled PPO: the clip against the proximal policy, the behaviour policy's ratio as a weight."""

import torch

from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.weight.importance import DivergenceFilter, MaskedWeight, TruncatedWeight
from rlcomp.testing.batch import example_batch

KEYS = ("log_probs", "old_log_probs", "rollout_log_probs", "advantage", "response_mask")
UNBOUNDED = TruncatedWeight(cap=1e30)

# By the place of the setting in its batch of 36 cases: every fourth has token ratios and no dual
# clip. Setting 6 bounds the mirrored k3.
SETTINGS = {
    0: {},
    1: {"w": MaskedWeight(low=0.0, high=5.0)},
    2: {"w": MaskedWeight(low=0.85, high=1.2)},
    3: {"w": TruncatedWeight(floor=0.9, cap=1.1)},
    4: {"w": MaskedWeight(level="sequence_mean", low=0.95, high=1.06)},
    5: {"w": TruncatedWeight(level="sequence_mean", floor=0.99, cap=1.02)},
    7: {"f": DivergenceFilter(estimator="k2", aggregate="sum", high=0.05), "w": UNBOUNDED},
    8: {"f": DivergenceFilter(estimator="k2", aggregate="max", high=0.03), "w": UNBOUNDED},
}


def loss(weight):
    return PolicyLoss(
        ratio=TokenRatio(),
        trust_region=Clip(clip_low=0.2, clip_high=0.28),
        reduction=TokenMean(),
        weight=weight,
    )


def test_where_the_proximal_policy_is_the_sampler_it_is_ppo():
    batch = example_batch(KEYS, dtype=torch.float64)
    batch["rollout_log_probs"] = batch["old_log_probs"]

    decoupled, plain = loss(SETTINGS[1])(batch)["loss"], loss({})(batch)["loss"]

    assert decoupled.item() == plain.item()


def test_where_the_policy_is_the_proximal_one_the_gradient_is_minus_weight_times_advantage():
    batch = example_batch(KEYS, dtype=torch.float64)
    batch["log_probs"] = batch["old_log_probs"].clone().requires_grad_()
    mask = batch["response_mask"]

    loss({"w": UNBOUNDED})(batch)["loss"].backward()

    weight = (batch["old_log_probs"] - batch["rollout_log_probs"]).exp()
    want = torch.where(mask, -weight * batch["advantage"] / mask.sum(), 0.0)
    torch.testing.assert_close(batch["log_probs"].grad, want, atol=1e-7, rtol=0)
