"""KL, importance weights, entropy, reductions and critics of others, by our parts."""

import math

import torch

from components.kl import KLInTokenReward
from components.kl_controller import AdaptiveKL, FixedKL
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.value import ValueLoss
from rlcomp.engine.decoding import Decoding, pack_mask
from rlcomp.engine.logprob import entropy, token_log_probs
from rlcomp.functional.divergence import kl_estimate, kl_full, kl_ratio_estimate
from rlcomp.functional.importance import (
    aggregate_rows,
    level_log_weight,
    normaliser,
    off_policy_tokens,
    sampler_gap,
    truncated_weight,
    within_bounds,
)
from rlcomp.functional.reduction import (
    fixed_length,
    masked,
    sequence_mean,
    sequence_sum,
    token_mean,
)
from rlcomp.interfaces.advantage import rewards_per_token
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

EXACT = 1e-9
DENOMINATOR = 1e-7  # verl adds 1e-8
FLOAT32 = 1e-6  # OpenRLHF rounds to float32


def verl_kl(case):
    held = case.tensors
    log_probs, mask = held["in/logprob"].requires_grad_(), held["in/mask"].bool()
    kl = kl_estimate(log_probs, held["in/ref_logprob"], mask, case.args["kl_penalty"])
    (gradient,) = torch.autograd.grad(kl.sum(), log_probs)
    yield kl[mask], held["out/kl"][mask], EXACT
    yield gradient, held["grad/logprob"], EXACT


def openrlhf_kl(case):
    # Clamped to +-10 there, which no case reaches.
    log_probs, ref = case.tensors["in/log_prob"], case.tensors["in/ref_log_prob"]
    every = torch.ones_like(ref, dtype=torch.bool)
    kl = kl_estimate(log_probs, ref, every, case.args["kl_estimator"])
    yield kl, case.tensors["out/kl"], FLOAT32


def kl_unbiased(case):
    held = case.tensors
    log_probs, mask = held["in/log_prob"].requires_grad_(), held["in/mask"].bool()
    inputs = log_probs, held["in/old_log_prob"], held["in/ref_log_prob"], mask
    kl = kl_ratio_estimate(*inputs, "k3_ratio")
    (gradient,) = torch.autograd.grad(kl.sum(), log_probs)
    yield kl[mask], held["out/kl"][mask], EXACT
    yield gradient, held["grad/log_prob"], EXACT


def whole_kl(case):
    held = case.tensors
    policy, ref = (held[f"in/{name}"].log_softmax(-1) for name in ("logits", "ref_logits"))
    every = torch.ones(policy.shape[:2], dtype=torch.bool)
    yield kl_full(policy, ref, every), held["out/reverse"], EXACT
    yield kl_full(ref, policy, every), held["out/forward"], EXACT


def kl_controller(case):
    a = case.args
    part = AdaptiveKL(kl_coef=a["init"], target=a["target"], unit="token", horizon=a["horizon"])
    found = []
    for kl, count in zip(case.tensors["in/kl"].tolist(), a["n_steps"], strict=True):
        part.observe(kl, count)
        found.append(part.coef())
    yield torch.tensor(found, dtype=torch.float64), case.tensors["out/coef"], EXACT


def token_reward(case):
    held, (low, high) = case.tensors, case.args["reward_clip_range"]
    mask = held["in/mask"].bool()
    filled = mask.any(1)  # of an empty row the reward stands on the last column there
    rows = make_batch(
        response_mask=mask,
        old_log_probs=held["in/kl"],  # against a reference of log-probs 0: d = kl
        ref_log_probs=torch.zeros_like(held["in/kl"]),
        reward=held["in/r"].clamp(low, high),
        reward_valid=torch.ones_like(filled),
    )
    part = KLInTokenReward(controller=FixedKL(kl_coef=case.args["kl_coef"]), estimator="k1")
    got = rewards_per_token(part(rows))
    yield got[filled], held["out/reward"][filled], EXACT


def sampler_ratio(case):
    held, a = case.tensors, case.args
    level, kind = a["mode"].split("_")
    low, high = a["clip_min"] or 0.0, a["clip_max"]
    mask = held["in/mask"].bool()
    gap = sampler_gap(held["in/old_log_prob"], held["in/sampling_log_prob"], mask)
    weight = level_log_weight(gap, mask, level)
    kept = masked(weight.exp(), within_bounds(weight, low, high))
    got = truncated_weight(weight, low, high) if kind == "truncate" else kept
    yield got[mask], held["out/ratio"].expand_as(mask)[mask], EXACT


def verl_weights(case):
    held, a = case.tensors, case.args
    mask = held["in/response_mask"].bool()
    log_weight = level_log_weight(masked(held["in/log_ratio"], mask), mask, a["rollout_is"])
    weight = truncated_weight(log_weight, 0.0, a["rollout_is_threshold"])
    if a["rollout_is_batch_normalize"]:
        weight = weight / normaliser(weight, mask, a["rollout_is"])
    yield weight[mask], held["out/weights"][mask], DENOMINATOR


def verl_rejection(case):
    held, a = case.tensors, case.args
    mask = held["in/response_mask"].bool()
    gap, keep = masked(held["in/log_ratio"], mask), mask
    for option, bound in zip(
        a["rollout_rs"].split(","), str(a["rollout_rs_threshold"]).split(","), strict=True
    ):
        *level, estimator = option.removeprefix("seq_").split("_")
        estimate = kl_estimate(-gap, torch.zeros_like(gap), mask, estimator)
        estimate = aggregate_rows(estimate, mask, *level)
        low, high = rejection_bounds(estimator, bound)
        keep = keep & (estimate <= high) & (estimate >= low)
    yield keep, held["out/mask"].bool() & mask, 0.0


def rejection_bounds(estimator, bound):
    """Those of k1 are ratios pi_rollout / pi_old; one number h means [1 / h, h]."""
    if estimator != "k1":
        return -math.inf, float(bound)
    ends = [float(end) for end in bound.split("_")]
    low, high = ends if len(ends) == 2 else (1 / ends[0], ends[0])
    return math.log(low), math.log(high)


def off_policy_mask(case):
    held = case.tensors
    mask = held["in/mask"].bool()
    advantage = held["in/advantages"][:, None].expand_as(mask)
    inputs = held["in/log_prob"], held["in/sampling_log_prob"], advantage, mask
    drop = off_policy_tokens(*inputs, case.args["threshold"])
    yield (~drop)[mask], held["out/mask_out"].expand_as(mask)[mask], 0.0


def verl_entropy(case):
    held = case.tensors
    mask, logits = held["in/mask"].bool(), held["in/logits"].requires_grad_()
    found = entropy(logits.flatten(0, 1), 1.0).view(mask.shape)
    (gradient,) = torch.autograd.grad(found[mask].sum(), logits)
    yield found[mask], held["out/entropy"][mask], EXACT
    yield gradient[mask], held["grad/logits"][mask], EXACT


def recorded_set(case):
    held = case.tensors
    keep, action = held["in/keep"], held["in/action"]
    # An action outside its recorded set is an error here.
    taken = keep.gather(-1, action[..., None]).squeeze(-1)
    kept = pack_mask(keep[taken])
    got = token_log_probs(held["in/logits"][taken], action[taken], Decoding(), recorded=kept)
    yield got, held["out/log_prob"][taken], EXACT


def aggregation(case):
    """A reduction; of one rank of several where the batch is larger than what it holds."""
    held, a = case.tensors, case.args
    mask = held["in/loss_mask"].bool()
    counted = mask.double()
    rows, tokens = mask.any(1).sum(), mask.sum()
    scale = a.get("loss_scale_factor", mask.shape[1])
    # Gradients are averaged over ranks.
    of_rows = a.get("dp_size", 1) * rows / a.get("global_batch_size", rows)
    of_tokens = a.get("dp_size", 1) * tokens / a.get("batch_num_tokens", tokens)
    weight = {
        "token-mean": lambda: token_mean(counted) * of_tokens,
        "seq-mean-token-sum": lambda: sequence_sum(counted) * of_rows,
        "seq-mean-token-mean": lambda: sequence_mean(counted) * of_rows,
        # A sum over the responses of the rank: without Dr. GRPO's 1 / S.
        "seq-mean-token-sum-norm": lambda: fixed_length(counted, scale) * rows,
    }[a["loss_agg_mode"]]()
    loss = torch.where(mask, held["in/loss_mat"], 0.0)
    yield (loss * weight).sum(), held["out/loss"], DENOMINATOR
    yield weight, held["grad/loss_mat"], DENOMINATOR  # the gradient of a weighted sum


def critic(value, old_value, returns, mask):
    return make_batch(
        value=value.requires_grad_(),
        old_value=old_value,
        returns=returns,
        response_mask=mask.bool(),
    )


def value_loss(case, rows, clip, reduction):
    rows["loss_weight"] = reduction(rows["response_mask"].double())
    with recording() as ledger:
        loss = ValueLoss(clip=clip, value_coef=1.0, reduction=TokenMean())(rows)["loss"]
    (gradient,) = torch.autograd.grad(loss, rows["value"])
    yield loss, case.tensors["out/loss"], DENOMINATOR
    name = "grad/vpreds" if "grad/vpreds" in case.tensors else "grad/values"
    yield gradient, case.tensors[name], DENOMINATOR
    if "out/clipfrac" in case.tensors:
        found = ledger.means()["value/clip_fraction"]
        yield found, case.tensors["out/clipfrac"], DENOMINATOR


def verl_value(case):
    names = ("vpreds", "values", "returns", "response_mask")
    rows = critic(*(case.tensors[f"in/{name}"] for name in names))
    reduction = token_mean if case.args["loss_agg_mode"] == "token-mean" else sequence_mean
    return value_loss(case, rows, case.args["cliprange_value"], reduction)


def openrlhf_value(case):
    names = ("values", "old_values", "returns", "mask")
    rows = critic(*(case.tensors[f"in/{name}"] for name in names))
    return value_loss(case, rows, case.args["clip_eps"], token_mean)


def trl_ppo(case):
    held, a = case.tensors, case.args
    rows = critic(*(held[f"in/{name}"] for name in ("vpred", "values", "returns", "mask")))
    rows["log_probs"] = held["in/log_prob"].requires_grad_()
    rows["old_log_probs"] = held["in/old_log_prob"]
    rows["advantage"] = held["in/advantages"]
    rows["loss_weight"] = token_mean(rows["response_mask"].double())
    clip = Clip(clip_low=a["cliprange"], clip_high=a["cliprange"])
    policy = PolicyLoss(ratio=TokenRatio(), trust_region=clip, reduction=TokenMean())
    value = ValueLoss(clip=a["cliprange_value"], value_coef=a["vf_coef"], reduction=TokenMean())
    losses = policy(rows)["loss"], value(rows)["loss"]
    yield losses[0], held["out/pg_loss"], EXACT
    yield losses[1], a["vf_coef"] * held["out/vf_loss"], EXACT
    gradients = torch.autograd.grad(sum(losses), (rows["log_probs"], rows["value"]))
    yield gradients[0], held["grad/log_prob"], EXACT
    yield gradients[1], held["grad/vpred"], EXACT


COMPARE = {
    "verl__kl_penalty": verl_kl,
    "openrlhf__approx_kl": openrlhf_kl,
    "spec__kl_unbiased": kl_unbiased,
    "spec__kl_full": whole_kl,
    "verl__kl_controller_adaptive": kl_controller,
    "openrlhf__compute_reward": token_reward,
    "trl__sampler_is_ratio": sampler_ratio,
    "verl__rollout_is_weights": verl_weights,
    "verl__rollout_rejection_mask": verl_rejection,
    "trl__off_policy_mask": off_policy_mask,
    "verl__entropy": verl_entropy,
    "spec__keep_sampling_mask": recorded_set,
    "verl__agg_loss": aggregation,
    "verl__value_loss": verl_value,
    "openrlhf__value_loss": openrlhf_value,
    "trl__ppo_loss": trl_ppo,
}


def test_kl_weights_and_critics_are_reproduced(case, reproduce):
    reproduce(case, COMPARE[case.file])
