"""What holds for all of them, inside a policy loss and whatever the ratio."""

from itertools import pairwise
from math import exp

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from components.loss.policy import PolicyLoss
from components.loss.ratio import (
    NoRatio,
    SequenceRatio,
    SequenceTokenRatio,
    TokenRatio,
    WholeSequenceRatio,
)
from components.loss.reduction import SequenceMean
from components.loss.trust_region.bapo import BAPO
from components.loss.trust_region.clip import CISPO, GMPO, Clip, DualClip, NoTrustRegion
from components.loss.trust_region.covariance import ClipCov, KLCov
from components.loss.trust_region.divergence import DPPO, M2PO, KLPenalty
from components.loss.trust_region.smooth import SAPO, VESPO
from rlcomp.functional.reduction import sequence_mean
from rlcomp.testing import check_component

NAN = float("nan")
RATIOS = [TokenRatio, SequenceRatio, SequenceTokenRatio, WholeSequenceRatio, NoRatio]
TRUST_REGIONS = {
    "none": NoTrustRegion,
    "clip": Clip,
    "dual_clip": DualClip,
    "cispo": CISPO,
    "bapo": BAPO,
    "bapo, value": lambda: BAPO(measure="value"),
    "sapo": SAPO,
    "clip_cov": ClipCov,
    "clip_cov, half": lambda: ClipCov(share=0.5, covariance_low=-5.0),
    "kl_cov": KLCov,
    "kl_cov, half": lambda: KLCov(share=0.5),
    "kl_penalty": KLPenalty,
    "gmpo": GMPO,
    "vespo": VESPO,
    "dppo": lambda: DPPO(delta=0.05),
    "dppo, kl": lambda: DPPO(divergence="kl", delta=0.01),
    "m2po": M2PO,
}
every = pytest.mark.parametrize("name", TRUST_REGIONS)
# The gradient of CISPO and VESPO is not that of their value: the weight is held constant.
weighted = ("cispo", "vespo")
differentiable = pytest.mark.parametrize("name", [n for n in TRUST_REGIONS if n not in weighted])
# SAPO's value at ratio 1 is 2 / tau; Clip-Cov's lacks the tokens taken out.
unit = pytest.mark.parametrize(
    "name", [n for n in TRUST_REGIONS if n not in (*weighted, "sapo", "clip_cov, half")]
)


def loss_of(name, ratio=TokenRatio):
    return PolicyLoss(ratio=ratio(), trust_region=TRUST_REGIONS[name](), reduction=SequenceMean())


def batch(seed=0, spread=0.3):
    """Eight ragged rows with holes, one of them empty, garbage where there is no token."""
    draw = torch.Generator().manual_seed(seed)

    def noise():
        return torch.randn(8, 6, generator=draw, dtype=torch.float64)

    mask = torch.rand(8, 6, generator=draw) < 0.7
    mask[3] = False
    log_probs = -1 - torch.rand(8, 6, generator=draw, dtype=torch.float64)
    entries = {
        "log_probs": log_probs,
        "old_log_probs": log_probs + spread * noise(),
        "rollout_log_probs": log_probs + spread * noise(),
        "advantage": noise()[:, :1].expand(8, 6),
    }
    entries = {key: torch.where(mask, value, NAN) for key, value in entries.items()}
    weight = sequence_mean(mask.double())
    return TensorDict({**entries, "response_mask": mask, "loss_weight": weight}, batch_size=[8])


def gradient_of(loss, rows):
    log_probs = rows["log_probs"].detach().clone().requires_grad_()
    value = loss(rows.copy().set("log_probs", log_probs))["loss"]
    (gradient,) = torch.autograd.grad(value, log_probs)
    return value.detach(), gradient


@every
@pytest.mark.parametrize("ratio", RATIOS)
def test_the_contract_is_kept_with_every_ratio(name, ratio):
    check_component(loss_of(name, ratio))


@every
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(1, 7), max_size=3))
@settings(max_examples=15)
def test_micro_batches_add_up_to_the_step(name, seed, cuts):
    loss, rows = loss_of(name), batch(seed)
    rows.update(loss.prepare(rows).exclude("loss_weight"))

    value, gradient = gradient_of(loss, rows)
    edges = [0, *sorted(set(cuts)), 8]
    parts = [gradient_of(loss, rows[a:b]) for a, b in pairwise(edges)]

    torch.testing.assert_close(sum(part[0] for part in parts), value)
    torch.testing.assert_close(torch.cat([part[1] for part in parts]), gradient)


@differentiable
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_the_gradient_is_that_of_finite_differences(name, seed):
    loss, rows = loss_of(name), batch(seed)
    rows.update(loss.prepare(rows).exclude("loss_weight"))
    _, gradient = gradient_of(loss, rows)
    # A kink is passed by at most by chance: tokens within a step of one are left out.
    ratio = (rows["log_probs"] - rows["old_log_probs"]).exp()
    kinks = [
        1.0,
        0.8,
        1.2,
        3.0,
        exp(0.4),
        exp(-0.4),
        *(rows[k][0] for k in loss.trust_region.step_keys if "ratio" in k),
    ]
    near = torch.stack([(ratio - kink).abs() < 1e-3 for kink in map(float, kinks)]).any(0)

    for place in (rows["response_mask"] & ~near).nonzero()[:6].tolist():
        sides = []
        for step in (1e-6, -1e-6):
            moved = rows["log_probs"].clone()
            moved[tuple(place)] += step
            sides.append(loss(rows.copy().set("log_probs", moved))["loss"])
        slope = (sides[0] - sides[1]) / 2e-6
        # The rounding of the difference is 1e-10 over the step.
        torch.testing.assert_close(slope, gradient[tuple(place)], atol=1e-7, rtol=1e-5)


# Of a sequence's ratio every token moves that of those that Clip-Cov takes out.
@pytest.mark.parametrize(
    ("name", "ratio"),
    [
        (name, ratio)
        for name in TRUST_REGIONS
        for ratio in RATIOS
        if (name, ratio) != ("clip_cov, half", SequenceRatio)
    ],
)
def test_at_the_old_policy_all_have_one_gradient(name, ratio):
    rows = batch()
    rows["old_log_probs"] = rows["log_probs"]
    loss = loss_of(name, ratio)
    rows.update(loss.prepare(rows).exclude("loss_weight"))

    _, gradient = gradient_of(loss, rows)

    kept = rows["response_mask"]
    if "clip_cov" in name:
        kept = kept & ~rows["selected"]
    want = torch.where(kept, -rows["advantage"] * rows["loss_weight"], 0.0)
    if ratio is WholeSequenceRatio and name not in ("cispo", "vespo"):  # whose ratio is detached
        # A token moves its own ratio by the length of its row.
        want = want * rows["response_mask"].sum(1, keepdim=True)
    torch.testing.assert_close(gradient, want)


@unit
def test_the_value_at_the_old_policy_is_the_mean_advantage(name):
    rows = batch()
    rows["old_log_probs"] = rows["log_probs"]

    value = loss_of(name)(rows)["loss"]

    weighted = torch.where(rows["response_mask"], rows["advantage"] * rows["loss_weight"], 0.0)
    torch.testing.assert_close(value, -weighted.sum())
