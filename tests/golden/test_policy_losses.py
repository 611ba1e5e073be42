"""Policy losses of others, rebuilt out of parts: loss, gradient and clip fractions."""

import torch
from tensordict import TensorDict

from components.kl_controller import FixedKL
from components.loss.entropy import EntropyLoss
from components.loss.kl import KLLoss, KLRatioLoss
from components.loss.policy import PolicyLoss
from components.loss.ratio import (
    NoRatio,
    SequenceRatio,
    SequenceTokenRatio,
    TokenRatio,
    WholeSequenceRatio,
)
from components.loss.reduction import TokenMean
from components.loss.trust_region.bapo import BAPO
from components.loss.trust_region.clip import CISPO, GMPO, Clip, DualClip
from components.loss.trust_region.covariance import ClipCov, KLCov
from components.loss.trust_region.smooth import SAPO, VESPO
from components.loss.weight.importance import (
    DivergenceFilter,
    GeometricFilter,
    MaskedWeight,
    OffPolicyMask,
    TruncatedWeight,
)
from components.loss.weight.rows import TopEntropy
from rlcomp.functional.reduction import fixed_length, sequence_mean, sequence_sum, token_mean
from rlcomp.interfaces.loss import LossPart
from rlcomp.metrics import recording

EXACT = 1e-9
LENGTH = 1e-7  # verl and OpenRLHF add 1e-8 to the number of tokens
FLOAT32 = 1e-6  # AReaL's importance weight is float32
UNREACHED = 1e30


class Given(LossPart):
    """A weight that the case holds, one a response or one a token."""

    reads = ("response_mask",)
    writes = ("token_weight",)

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, batch):
        batch["token_weight"] = self.weight.expand(batch["response_mask"].shape)
        return batch


NAMES = {
    "log_probs": ("log_prob",),
    "old_log_probs": ("old_log_prob", "proximal_log_prob", "rollout_log_prob"),
    "rollout_log_probs": (
        "behave_log_prob",
        "sampling_log_prob",
        "rollout_log_prob",
        "old_log_prob",
    ),
    "ref_log_probs": ("ref_log_prob",),
    "entropy": ("entropy",),
}


def rows_of(case):
    """The batch of a case under our names; log-probs and entropy have a gradient."""
    held = case.tensors
    mask = held.get("in/response_mask", held.get("in/mask")).bool()
    advantage = held["in/advantages"]
    advantage = advantage[:, None] if advantage.ndim == 1 else advantage.squeeze(-1)
    rows = {"response_mask": mask, "advantage": advantage.expand(mask.shape)}
    for key, names in NAMES.items():
        found = [held[f"in/{name}"] for name in names if f"in/{name}" in held]
        rows |= {key: found[0]} if found else {}
    for key in rows.keys() & {"log_probs", "entropy"}:
        rows[key].requires_grad_()
    return TensorDict(rows, batch_size=[len(mask)])


def compared(case, losses, rows, weight, tolerance):
    """Loss and gradients of the sum of some losses, under a given ``loss_weight``."""
    rows["loss_weight"] = weight
    value = sum(loss(rows.copy())["loss"] for loss in losses)
    yield value, case.tensors["out/loss"], tolerance
    for key, name in (("log_probs", "log_prob"), ("entropy", "entropy")):
        if f"grad/{name}" in case.tensors:
            (gradient,) = torch.autograd.grad(value, rows[key], retain_graph=True)
            want = torch.where(rows["response_mask"], case.tensors[f"grad/{name}"], 0.0)
            yield gradient, want, tolerance


def policy(ratio, trust_region, **weight):
    return PolicyLoss(ratio=ratio, trust_region=trust_region, reduction=TokenMean(), weight=weight)


def clip(low, high, dual=None):
    if dual is None:
        return Clip(clip_low=low, clip_high=high)
    return DualClip(clip_low=low, clip_high=high, clip_dual=dual)


def clip_fractions(case, loss, rows, names, tolerance=EXACT):
    """What was recorded of the trust region, beside what the other code reported."""
    with recording() as ledger:
        loss(rows.copy())
    for name, parts in names.items():
        recorded = [ledger.means()[f"trust_region/clip_fraction_{part}"] for part in parts]
        yield sum(recorded), case.tensors[f"out/{name}"], tolerance


# A float mask gives weights in float64.
REDUCTIONS = {
    "token-mean": token_mean,
    "seq-mean-token-sum": sequence_sum,
    "seq-mean-token-mean": sequence_mean,
    # Dr. GRPO's over the padded width, without its mean over responses.
    "seq-mean-token-sum-norm": lambda mask: fixed_length(mask, mask.shape[1]) * mask.any(1).sum(),
}
VERL = {
    "clip_cov": lambda a: ClipCov(
        share=a["clip_cov_ratio"], covariance_low=a["clip_cov_lb"], covariance_high=a["clip_cov_ub"]
    ),
    "geo_mean": lambda a: GMPO(clip_low=a["clip_ratio_low"], clip_high=a["clip_ratio_high"]),
    "kl_cov": lambda a: KLCov(share=a["kl_cov_ratio"], kl_coef=a["ppo_kl_coef"]),
    "sapo": lambda a: SAPO(tau_positive=a["tau_pos"], tau_negative=a["tau_neg"]),
    "cispo": lambda a: CISPO(
        # An interval from 0 is a bound above only.
        clip_low=None if a["clip_ratio_low"] == 1 else a["clip_ratio_low"],
        clip_high=a["clip_ratio_high"],
    ),
    "gspo": lambda a: clip(a["clip_ratio_low"], a["clip_ratio_high"]),
    "vanilla": lambda a: clip(a["clip_ratio_low"], a["clip_ratio_high"], a["clip_ratio_c"]),
    # A ratio of 1 has the gradient; weighted log-probs have the value as well.
    "gpg": lambda a: CISPO(),
    "reinforce": lambda a: CISPO(),
}


def verl(case):
    kind, rows = case.file.removeprefix("verl__policy_loss_"), rows_of(case)
    mask = rows["response_mask"].double()
    weight = REDUCTIONS[case.args["loss_agg_mode"]](mask)
    if kind == "geo_mean":  # always over responses, empty ones too
        weight = sequence_mean(mask) * mask.any(1).double().mean()
        # Advantages that differ between tokens enter there by their mean.
        total = torch.where(rows["response_mask"], rows["advantage"], 0.0).sum(1, keepdim=True)
        rows["advantage"] = (total / mask.sum(1, keepdim=True)).expand_as(mask)
    ratio = {"gspo": SequenceTokenRatio(), "gpg": NoRatio(), "reinforce": NoRatio()}
    held, parts = case.tensors, {}
    if "in/rollout_is_weights" in held:
        parts["given"] = Given(held["in/rollout_is_weights"])
    loss = policy(ratio.get(kind, TokenRatio()), VERL[kind](case.args), **parts)
    yield from compared(case, [loss], rows, weight, LENGTH)
    if kind == "gspo" and case.note == "sequence-constant advantages":
        own = policy(SequenceRatio(), VERL[kind](case.args))
        yield from compared(case, [own], rows, weight, LENGTH)
    if kind in ("vanilla", "gspo"):
        names = {"pg_clipfrac": ("low", "high")}
        names |= {"pg_clipfrac_lower": ("dual",)} if kind == "vanilla" else {}
        yield from clip_fractions(case, loss, rows, names, LENGTH)


TRL_REDUCTIONS = {
    "grpo": sequence_mean,
    "sapo": sequence_mean,
    "bnpo": token_mean,
    "dapo": token_mean,
    "cispo": token_mean,
    "luspo": sequence_sum,
    "vespo": token_mean,
}


def trl(case):
    a, rows = case.args, rows_of(case)
    kind, mask = a["loss_type"], rows["response_mask"].double()
    high = a.get("eps_high", a["eps"])
    region = {
        # The absolute cap on the weight there.
        "cispo": lambda: CISPO(clip_low=None, clip_high=high - 1),
        "vespo": VESPO,
        "sapo": lambda: SAPO(tau_positive=a["sp"][0], tau_negative=a["sp"][1]),
    }.get(kind, lambda: clip(a["eps"], high, a.get("delta")))()
    level = a.get("level", a.get("importance_sampling_level"))
    levels = {"sequence": SequenceRatio, "sequence_token": SequenceTokenRatio}
    ratio = WholeSequenceRatio if kind == "vespo" else levels.get(level, TokenRatio)
    parts = {}
    if "use_vllm" in a:
        parts["given"] = Given(case.tensors["in/importance_sampling_ratio"])
    if "opsm" in a:
        parts["opsm"] = OffPolicyMask(delta=a["opsm"])
    if "topq" in a:
        parts["top"] = TopEntropy(fraction=a["topq"])
    loss = policy(ratio(), region, **parts)
    weight = fixed_length(mask, a["maxlen"]) if kind == "dr_grpo" else TRL_REDUCTIONS[kind](mask)
    if kind in ("grpo", "dr_grpo", "sapo", "luspo"):  # empty rows count in the mean there
        weight = weight * mask.any(1).double().mean()
    yield from compared(case, [loss, *beside(a)], prepared(loss, rows), weight, EXACT)
    if "out/clip_ratio_low_mean" in case.tensors and ratio is TokenRatio:
        yield from clip_fractions(
            case,
            loss,
            rows,
            {
                "clip_ratio_low_mean": ("low",),
                "clip_ratio_high_mean": ("high",),
                "clip_ratio_region_mean": ("low", "high"),
            },
        )


def beside(a):
    """TRL's terms beside the policy loss."""
    if "beta" in a:
        kind, name = (KLRatioLoss, "k3_ratio") if a["biaskl"] else (KLLoss, "k3")
        controller = FixedKL(kl_coef=a["beta"])
        yield kind(controller=controller, estimator=name, reduction=TokenMean())
    if "ec" in a:
        yield EntropyLoss(entropy_coef=a["ec"], reduction=TokenMean())


def prepared(loss, rows):
    """With what parts find out about the whole step."""
    return rows.update(loss.prepare(rows.copy()))


def rloo(case):
    rows = rows_of(case)
    filled = rows["response_mask"].any(1)
    weight = sequence_mean(rows["response_mask"].double()) * filled.double().mean()
    loss = policy(WholeSequenceRatio(), clip(case.args["eps_low"], case.args["eps_high"]))
    (value, want, tolerance), *gradient = compared(case, [loss], rows, weight, EXACT)
    # An empty response has ratio 1 there, and adds its advantage to the mean: a constant.
    empty = torch.where(filled, 0.0, rows["advantage"][:, 0]).sum() / len(filled)
    yield value - empty, want, tolerance
    yield from gradient


def openrlhf(case):
    a, rows = case.args, rows_of(case)
    mask, parts = rows["response_mask"].double(), {}
    if "vllm_is_correction_type" in a:
        low, high = a["vllm_is_truncated_threshold"]
        parts = {
            "tis": {"tis": TruncatedWeight(floor=low, cap=high)},
            "icepop": {"mis": MaskedWeight(low=low, high=high)},
            # Weights of tokens are not truncated there, whatever its comment says.
            "seq-mask-tis": {
                "geometric": GeometricFilter(low=low, high=high),
                "tis": TruncatedWeight(cap=UNREACHED),
            },
        }[a["vllm_is_correction_type"]]
    else:
        rows["rollout_log_probs"] = rows["old_log_probs"]
    gspo = a.get("policy_loss_type") == "gspo"
    region = clip(a.get("clip_eps_low", 0.2), a.get("clip_eps_high", 0.2), a.get("dual_clip"))
    loss = policy(SequenceRatio() if gspo else TokenRatio(), region, **parts)
    by_sequence = gspo or not a.get("token_level_loss", True)
    weight = (sequence_mean if by_sequence else token_mean)(mask)
    yield from compared(case, [loss], rows, weight, LENGTH)


def areal(case):
    a, rows = case.args, rows_of(case)
    levels = {"token": TokenRatio, "sequence": SequenceRatio}
    region = clip(a["eps_clip"], a["eps_clip_higher"], a["c_clip"])
    weight, parts = token_mean(rows["response_mask"].double()), rejection(a)
    # What is rejected leaves the ratio of its sequence there, and stays in the denominator.
    for part in parts.values():
        kept = part(rows.copy())["token_weight"] > 0
        rows["response_mask"] = rows["response_mask"] & kept
    loss = policy(levels[a["importance_sampling_level"]](), region, **parts)
    yield from compared(case, [loss], rows, weight, FLOAT32)


def rejection(a):
    """AReaL's ``rejection_sampling`` as weights."""
    given = a["rejection_sampling"]
    if given is None:
        return {}
    high, low = given["upper"], given["lower"]
    if given["metric"] != "ratio":
        bound = DivergenceFilter(
            estimator=given["metric"].removeprefix("kl_"), aggregate=given["agg"], high=high
        )
        return {"bound": bound, "weight": TruncatedWeight(cap=UNREACHED)}
    level = "token" if given["level"] == "token" else "sequence_mean"
    if given["action"] == "mask":
        return {"weight": MaskedWeight(level=level, low=low or 0.0, high=high)}
    return {"weight": TruncatedWeight(level=level, floor=low or 0.0, cap=high)}


def torchrl(case):
    rows, a = rows_of(case), case.args
    low, high = (
        a["clip_epsilon"] if isinstance(a["clip_epsilon"], list) else [a["clip_epsilon"]] * 2
    )
    cispo = case.file == "torchrl__llm_cispo"
    region = CISPO(clip_low=low, clip_high=high) if cispo else clip(low, high)
    by_row = a["aggregation"] == "prompt_mean"
    weight = (sequence_mean if by_row else token_mean)(rows["response_mask"].double())
    yield from compared(case, [policy(TokenRatio(), region)], rows, weight, EXACT)


def bapo(case):
    a, rows = case.args, rows_of(case)
    authors = case.file == "bapo_repo__policy_loss"
    if authors or not a["rollout_prob_weight"]:
        rows["rollout_log_probs"] = torch.zeros_like(rows["old_log_probs"])  # every token counts 1
    names = ("ratio_lower", "ratio_upper") if authors else ()
    part = (
        BAPO(
            share=a["adv_ratio_target"] / (1 + a["adv_ratio_target"]),
            **bounds("floor", *(a[f"{names[0]}_{end}"] for end in ("start", "max", "step"))),
            **bounds("ceiling", *(a[f"{names[1]}_{end}"] for end in ("start", "max", "step"))),
        )
        if authors
        else BAPO(
            share=a["rho0"],
            measure=a["measure"],
            **bounds("floor", a["a_lo"], a["b_lo"], a["d_lo"]),
            **bounds("ceiling", a["a_hi"], a["b_hi"], a["d_hi"]),
        )
    )
    loss = policy(TokenRatio(), part)
    rows = prepared(loss, rows)
    low, high = ("clip_low", "clip_high") if authors else ("c_low", "c_high")
    yield rows["ratio_floor"][0], case.tensors[f"out/{low}"], EXACT
    yield rows["ratio_ceiling"][0], case.tensors[f"out/{high}"], EXACT
    if not authors:
        yield part.bounds.share, case.tensors["out/share"], EXACT
    yield from compared(case, [loss], rows, token_mean(rows["response_mask"].double()), EXACT)


def bounds(name, start, end, step):
    return {f"{name}_start": start, f"{name}_end": end, f"{name}_step": step}


COMPARE = {
    **{f"verl__policy_loss_{kind}": verl for kind in VERL},
    **{f"trl__grpo_loss_{kind}": trl for kind in ("grpo", "bnpo", "dr_grpo", "dapo")},
    **{
        f"trl__{kind}_loss": trl
        for kind in ("gspo", "gspo_token", "cispo", "sapo", "luspo", "vespo", "opsm")
    },
    **{f"trl__{kind}_loss": trl for kind in ("entropy_bonus", "top_entropy")},
    "trl__rloo_loss": rloo,
    **{f"openrlhf__policy_loss_{kind}": openrlhf for kind in ("ppo", "gspo", "is_corrected")},
    "areal__decoupled_ppo_loss": areal,
    **{f"torchrl__llm_{kind}": torchrl for kind in ("grpo", "dapo", "cispo")},
    "bapo_repo__policy_loss": bapo,
    "spec__bapo_paper": bapo,
}


def test_loss_and_gradient_are_reproduced(case, reproduce):
    reproduce(case, COMPARE[case.file])


def test_no_token_loses_its_gradient_as_it_does_in_torchrl_s_cispo(left_out_of):
    for case in left_out_of("torchrl__llm_cispo")[::2]:  # token means
        rows = rows_of(case)
        mask, theirs = rows["response_mask"], case.tensors["grad/log_prob"]
        loss = policy(TokenRatio(), CISPO(clip_low=0.2, clip_high=0.28))(rows)["loss"]
        (own,) = torch.autograd.grad(loss, rows["log_probs"])

        ratio = (rows["log_probs"] - rows["old_log_probs"]).exp().detach()
        lost = mask & (theirs == 0)
        assert bool((own[mask] != 0).all())
        assert bool(lost.any())
        assert bool(((ratio < 0.8) | (ratio > 1.28))[lost].all())
