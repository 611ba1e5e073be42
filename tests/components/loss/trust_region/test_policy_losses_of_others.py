"""Other people's policy losses, rebuilt out of parts: loss and gradient, at float64."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tensordict import TensorDict

from components.loss.policy import PolicyLoss
from components.loss.ratio.none import NoRatio
from components.loss.ratio.sequence import SequenceRatio
from components.loss.ratio.sequence_token import SequenceTokenRatio
from components.loss.ratio.token import TokenRatio
from components.loss.ratio.whole_sequence import WholeSequenceRatio
from components.loss.reduction.token_mean import TokenMean
from components.loss.trust_region.cispo import Cispo
from components.loss.trust_region.clip import Clip
from components.loss.trust_region.clip_cov import ClipCov
from components.loss.trust_region.dual_clip import DualClip
from components.loss.trust_region.gmpo import Gmpo
from components.loss.trust_region.kl_cov import KLCov
from components.loss.trust_region.sapo import Sapo
from components.loss.trust_region.vespo import Vespo
from rlcomp.functional.reduction import fixed_length, sequence_mean, sequence_sum, token_mean

GOLDEN = Path(__file__).parents[3] / "golden" / "policy"
# verl and OpenRLHF add 1e-8 to the length of a response.
LENGTH = 1e-7
EXACT = 1e-9


def dr_grpo(mask):
    return fixed_length(mask, 20)


def case_of(name, number):
    """The batch of a case, and the peer's loss and gradient."""
    tensors = load_file(GOLDEN / f"{name}.safetensors")
    held = {key.split("/", 1)[1]: t for key, t in tensors.items() if key.startswith(f"{number}/")}
    mask = held.get("in/response_mask", held.get("in/mask")).bool()
    advantage = held["in/advantages"]
    advantage = (advantage[:, None] if advantage.ndim == 1 else advantage.squeeze(-1)).expand(
        mask.shape
    )
    old = held.get("in/old_log_prob", held.get("in/rollout_log_prob"))
    if "in/rollout_is_weights" in held:
        advantage = advantage * held["in/rollout_is_weights"]
    batch = TensorDict(
        {
            "response_mask": mask,
            "log_probs": held["in/log_prob"].requires_grad_(),
            "old_log_probs": old,
            "rollout_log_probs": old,
            "advantage": advantage,
        },
        batch_size=[len(mask)],
    )
    return batch, held["out/loss"], torch.where(mask, held["grad/log_prob"], 0.0)


def ours(batch, ratio, trust_region, reduction, over_all_rows=False):
    """Loss and gradient; TRL's means count empty rows."""
    mask = batch["response_mask"]
    # A mask of floats gives weights in float64.
    weight = reduction(mask.double())
    if over_all_rows:
        weight = weight * mask.any(1).sum() / len(mask)
    loss = PolicyLoss(ratio=ratio, trust_region=trust_region, reduction=TokenMean())
    value = loss(batch.copy().set("loss_weight", weight))["loss"]
    (gradient,) = torch.autograd.grad(value, batch["log_probs"])
    return value.detach(), gradient


def assert_near(got, want, tolerance):
    torch.testing.assert_close(got, want.expand_as(got), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("number", range(12))
def test_verl_s_cispo(number):
    low, high = [(0.2, 0.2), (None, 4.0), (0.2, 0.28), (None, 4.0)][number % 4]
    batch, loss, gradient = case_of("verl__policy_loss_cispo", number)

    value, own = ours(batch, TokenRatio(), Cispo(clip_low=low, clip_high=high), token_mean)

    assert_near(value, loss, EXACT)
    assert_near(own, gradient, EXACT)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(
    ("name", "trust_region"),
    [
        # A share that leaves nothing to chance.
        ("clip_cov", ClipCov(share=0.99, covariance_low=0.05, covariance_high=5.0)),
        ("kl_cov", KLCov(share=0.25, kl_coef=0.1)),
    ],
)
def test_verl_s_covariances(name, trust_region, number):
    batch, loss, gradient = case_of(f"verl__policy_loss_{name}", number)

    value, own = ours(batch, TokenRatio(), trust_region, token_mean)

    assert_near(value, loss, EXACT)
    assert_near(own, gradient, EXACT)


@pytest.mark.parametrize("number", range(12))
def test_verl_s_gspo_whatever_aggregation_it_is_told(number):
    low, high = (3e-4, 4e-4) if number % 4 < 2 else (0.1, 0.2)
    batch, loss, gradient = case_of("verl__policy_loss_gspo", number)
    ratios = [SequenceTokenRatio()]
    if number % 2:  # one advantage per response
        ratios.append(SequenceRatio())

    for ratio in ratios:
        value, own = ours(batch, ratio, Clip(clip_low=low, clip_high=high), sequence_mean)
        assert_near(value, loss, LENGTH)
        assert_near(own, gradient, LENGTH)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(("name", "reduction"), [("gpg", token_mean), ("reinforce", sequence_sum)])
def test_verl_s_score_functions(name, reduction, number):
    batch, loss, gradient = case_of(f"verl__policy_loss_{name}", number)

    # A ratio of 1 has their gradient; weighted log-probs have their value as well.
    value, own = ours(batch, NoRatio(), Cispo(), reduction)
    assert_near(value, loss, EXACT)
    assert_near(own, gradient, EXACT)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("peer", ["verl__policy_loss_sapo", "trl__sapo_loss"])
def test_sapo_of_verl_and_trl(peer, number):
    batch, loss, gradient = case_of(peer, number)

    value, own = ours(batch, TokenRatio(), Sapo(), sequence_mean, peer.startswith("trl"))

    assert_near(value, loss, LENGTH)
    assert_near(own, gradient, LENGTH)


@pytest.mark.parametrize("number", range(3))
def test_trl_s_cispo_takes_the_cap_itself(number):
    batch, loss, gradient = case_of("trl__cispo_loss", number)

    # Its epsilon_high = 5 is our clip_high = 4.
    value, own = ours(batch, TokenRatio(), Cispo(clip_low=None, clip_high=5.0 - 1), token_mean)

    assert_near(value, loss, EXACT)
    assert_near(own, gradient, EXACT)


@pytest.mark.parametrize("number", range(6))
def test_trl_s_gspo(number):
    low, high = [(3e-4, 4e-4), (0.05, 0.1)][number % 2]
    batch, loss, gradient = case_of("trl__gspo_loss", number)

    value, own = ours(
        batch, SequenceRatio(), Clip(clip_low=low, clip_high=high), sequence_mean, True
    )

    assert_near(value, loss, EXACT)
    assert_near(own, gradient, EXACT)


@pytest.mark.parametrize("number", range(12))
def test_trl_s_gspo_token(number):
    low, high = (3e-4, 4e-4) if number % 4 < 2 else (0.05, 0.1)
    batch, loss, gradient = case_of("trl__gspo_token_loss", number)

    value, own = ours(
        batch, SequenceTokenRatio(), Clip(clip_low=low, clip_high=high), sequence_mean, True
    )

    assert_near(value, loss, EXACT)
    assert_near(own, gradient, EXACT)


@pytest.mark.parametrize("number", [0, 1, 4, 6, 7, 10, 12, 13, 16])
@pytest.mark.parametrize(
    ("name", "reduction", "over_all_rows"),
    [
        ("bnpo", token_mean, False),
        ("dapo", token_mean, False),
        ("dr_grpo", dr_grpo, True),
        ("grpo", sequence_mean, True),
    ],
)
def test_trl_s_grpo_losses(name, reduction, over_all_rows, number):
    two_sided = number % 6 == 1  # its delta = 1.5 is a dual clip
    trust_region = (
        DualClip(clip_low=0.2, clip_high=0.28, clip_dual=1.5)
        if two_sided
        else Clip(clip_low=0.2, clip_high=0.28)
    )
    batch, loss, gradient = case_of(f"trl__grpo_loss_{name}", number)

    value, own = ours(batch, TokenRatio(), trust_region, reduction, over_all_rows)

    assert_near(value, loss, EXACT)
    assert_near(own, gradient, EXACT)


@pytest.mark.parametrize("number", range(6))
def test_the_gradient_of_trl_s_rloo(number):
    batch, _, gradient = case_of("trl__rloo_loss", number)

    # The value counts a response once per token there.
    _, own = ours(batch, WholeSequenceRatio(), Clip(), sequence_sum, True)

    assert_near(own, gradient, EXACT)


@pytest.mark.parametrize("number", range(12))
def test_openrlhf_s_ppo(number):
    bounds = {"clip_low": 0.2, "clip_high": 0.28}
    trust_region = DualClip(**bounds, clip_dual=3.0) if number % 2 else Clip(**bounds)
    batch, loss, gradient = case_of("openrlhf__policy_loss_ppo", number)

    reduction = token_mean if number % 4 < 2 else sequence_mean
    value, own = ours(batch, TokenRatio(), trust_region, reduction)

    assert_near(value, loss, LENGTH)
    assert_near(own, gradient, LENGTH)


@pytest.mark.parametrize("number", range(3))
def test_openrlhf_s_gspo(number):
    batch, loss, gradient = case_of("openrlhf__policy_loss_gspo", number)

    value, own = ours(batch, SequenceRatio(), Clip(clip_low=3e-4, clip_high=4e-4), sequence_mean)

    assert_near(value, loss, LENGTH)
    assert_near(own, gradient, LENGTH)


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize(("name", "high"), [("llm_grpo", 0.2), ("llm_dapo", 0.28)])
def test_torchrl_s_losses_of_language_models(name, high, number):
    batch, loss, gradient = case_of(f"torchrl__{name}", number)

    # The bounds are exact in float64, which torchrl's own float32 buffers are not.
    reduction = sequence_mean if number % 2 else token_mean
    value, own = ours(batch, TokenRatio(), Clip(clip_low=0.2, clip_high=high), reduction)

    assert_near(value, loss, EXACT)
    assert_near(own, gradient, EXACT)


@pytest.mark.parametrize("number", [0, 2, 4])
def test_no_token_loses_its_gradient_as_it_does_in_torchrl_s_cispo(number):
    batch, _, theirs = case_of("torchrl__llm_cispo", number)
    mask = batch["response_mask"]

    _, own = ours(batch, TokenRatio(), Cispo(clip_low=0.2, clip_high=0.28), token_mean)

    assert bool((own[mask] != 0).all())
    lost = mask & (theirs == 0)
    ratio = (batch["log_probs"] - batch["old_log_probs"]).exp().detach()
    assert bool(lost.any())
    assert bool(((ratio < 0.8) | (ratio > 1.28))[lost].all())


@pytest.mark.parametrize("number", range(6))
def test_verl_s_gmpo(number):
    high = [0.2, 0.28][number % 2]
    batch, loss, gradient = case_of("verl__policy_loss_geo_mean", number)

    trust_region = Gmpo(clip_low=0.2, clip_high=high)
    value, own = ours(batch, TokenRatio(), trust_region, sequence_mean, True)

    assert_near(value, loss, LENGTH)
    assert_near(own, gradient, LENGTH)


@pytest.mark.parametrize("number", range(3))
def test_trl_s_vespo(number):
    batch, loss, gradient = case_of("trl__vespo_loss", number)

    value, own = ours(batch, WholeSequenceRatio(), Vespo(), token_mean)

    assert_near(value, loss, EXACT)
    assert_near(own, gradient, EXACT)


@pytest.mark.parametrize("number", range(3))
def test_trl_s_luspo_is_gspo_summed_over_tokens(number):
    batch, loss, gradient = case_of("trl__luspo_loss", number)

    trust_region = Clip(clip_low=0.2, clip_high=0.28)
    value, own = ours(batch, SequenceRatio(), trust_region, sequence_sum, True)

    assert_near(value, loss, EXACT)
    assert_near(own, gradient, EXACT)
