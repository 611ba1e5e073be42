"""Parts that see the whole optimiser step, in float32 and in the learner that splits it."""

import copy
from functools import partial

import pytest
import torch

from components.kl_controller import FixedKL
from components.learner.gradient import Learner
from components.loss.kl import KLFullLoss
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.bapo import BAPO
from components.loss.trust_region.clip import NoTrustRegion
from components.loss.trust_region.covariance import ClipCov, KLCov
from components.loss.trust_region.divergence import M2PO, KLPenalty
from components.loss.weight.importance import MaskedWeight, SelfNormalisedWeight, TruncatedWeight
from components.loss.weight.rows import TopEntropy
from rlcomp.component import is_loss_input
from rlcomp.engine.decoding import Decoding
from rlcomp.functional.reduction import masked
from rlcomp.metrics import recording
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_model
from rlcomp.text.answers import answer_prompts
from rlcomp.text.tokenizer import character_tokenizer

PARTS = {
    "kl_cov": {"trust_region": KLCov(share=0.2)},
    "clip_cov": {"trust_region": ClipCov(share=0.2, covariance_low=-50, covariance_high=50)},
    "bapo": {"trust_region": BAPO(share=0.9)},
    "m2po": {"trust_region": M2PO(tau=1e-4)},
    "kl_penalty": {"trust_region": KLPenalty(target=1e-4)},
    "top_entropy": {"trust_region": NoTrustRegion(), "weight": {"top": TopEntropy(fraction=0.2)}},
    "tis": {"trust_region": NoTrustRegion(), "weight": {"tis": TruncatedWeight()}},
    "mis": {"trust_region": NoTrustRegion(), "weight": {"mis": MaskedWeight()}},
    "tis_normalised": {"trust_region": NoTrustRegion(), "weight": {"tis": SelfNormalisedWeight()}},
}


class Rounded(LanguageModel):
    """What it says hangs on how many rows it reads, in the seventh digit, as kernels have it."""

    def forward(self, batch):
        batch = super().forward(batch)
        draw = torch.Generator().manual_seed(len(batch))
        for key in ("log_probs", "entropy"):
            rounding = 1e-7 * torch.randn(batch[key].shape, generator=draw)
            batch[key] = batch[key] + masked(rounding, batch["response_mask"])
        return batch


def policy():
    tokenizer = character_tokenizer(characters="012+=")
    return Rounded(model=tiny_model(tokenizer), tokenizer=tokenizer, decoding=Decoding())


def rollouts(model):
    """Groups of 16 short answers over few tokens: many share their first ones."""
    draw = torch.Generator().manual_seed(0)
    rows = answer_prompts(model, ["1+1=", "2="], group_size=16, max_new_tokens=5, generator=draw)
    rows["old_log_probs"] = rows["rollout_log_probs"]
    outcome = torch.where(torch.arange(32) % 3 == 0, 1.0, -0.5)
    rows["advantage"] = torch.where(rows["response_mask"], outcome[:, None], 0.0)
    return rows


def after_four_steps(model, parts, rows, micro_batch_tokens):
    model, parts = copy.deepcopy(model), copy.deepcopy(parts)
    if "generator" in vars(parts["trust_region"]):
        parts["trust_region"].generator.manual_seed(0)
    loss = PolicyLoss(ratio=TokenRatio(), reduction=TokenMean(), **parts)
    torch.manual_seed(0)
    learner = Learner(
        model=model,
        losses={"policy": loss},
        optimizer=partial(torch.optim.SGD, lr=0.3),
        micro_batch_tokens=micro_batch_tokens,
        num_minibatches=2,
        epochs=2,
        max_grad_norm=None,
    )
    with recording() as ledger:
        learner(rows)
    return torch.cat([p.detach().flatten() for p in model.parameters()]), ledger.means()


@pytest.mark.parametrize("name", PARTS)
def test_micro_batches_change_neither_the_weights_nor_a_metric(name):
    model = policy()
    rows = rollouts(model)
    # A sampler that was a little off, and kept no record of one token in each answer.
    if "trust_region" not in name:
        rows["rollout_log_probs"] = rows["old_log_probs"] - 0.3 * (rows["tokens"] % 3 - 1)

    weights, metrics = after_four_steps(model, PARTS[name], rows, None)
    split, others = after_four_steps(model, PARTS[name], rows, 24)

    torch.testing.assert_close(split, weights, atol=1e-5, rtol=0)
    assert others == pytest.approx(metrics, abs=1e-5)


def test_at_the_old_policy_rounding_is_not_trained_on():
    model = policy()
    rows = rollouts(model)
    found = []
    for kl_coef in (0.0, 1.0):
        loss = PolicyLoss(
            ratio=TokenRatio(),
            trust_region=KLCov(share=0.2, kl_coef=kl_coef),
            reduction=TokenMean(),
        )
        seen = rows.copy().update(model(rows.copy()))
        found.append(torch.autograd.grad(loss(seen)["loss"], tuple(model.parameters())))

    assert bool((seen["log_probs"] != seen["old_log_probs"])[rows["response_mask"]].any())
    torch.testing.assert_close(found[0], found[1], atol=1e-7, rtol=0)


@pytest.mark.parametrize(
    ("name", "passes"), [("tis_normalised", 1), ("top_entropy", 2), ("kl_cov", 2)]
)
def test_only_parts_that_need_model_outputs_cost_another_pass(name, passes):
    model = policy()
    rows, calls = rollouts(model), []
    model.register_forward_hook(lambda *_: calls.append(1))
    loss = PolicyLoss(ratio=TokenRatio(), reduction=TokenMean(), **PARTS[name])

    Learner(
        model=model,
        losses={"policy": loss},
        optimizer=partial(torch.optim.SGD, lr=0.1),
    )(rows)

    assert len(calls) == passes


def test_whole_distributions_are_left_out_of_the_look_ahead():
    model = policy()
    rows, asked_for = rollouts(model), []
    rows["ref_log_distribution"] = model.log_distribution(rows).detach()
    model.register_forward_hook(lambda *_: asked_for.append(is_loss_input("log_distribution")))
    kl = KLFullLoss(controller=FixedKL(kl_coef=0.1), reduction=TokenMean())
    loss = PolicyLoss(ratio=TokenRatio(), reduction=TokenMean(), **PARTS["kl_cov"])

    Learner(
        model=model,
        losses={"policy": loss, "kl": kl},
        optimizer=partial(torch.optim.SGD, lr=0.1),
    )(rows)

    assert asked_for == [False, True]
