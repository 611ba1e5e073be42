"""Preference losses of others, rebuilt out of parts: loss and gradient, from the logits on."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tensordict import TensorDict

from components.loss.link import (
    BCO,
    EXO,
    NCA,
    SPPO,
    APODown,
    APOZero,
    DiscoPOP,
    Hinge,
    Sigmoid,
    SquaredError,
)
from components.loss.preference import KTOLoss, PreferenceLoss
from components.loss.score import (
    DivergenceScore,
    LengthDesensitisedLogRatio,
    LogOdds,
    LogProb,
    LogRatio,
    SequentialKL,
)

HERE = Path(__file__).parent / "preference"
EXACT = {"rtol": 1e-9, "atol": 1e-11}
FLOAT32 = {"rtol": 2e-5, "atol": 1e-6}
SUM, MEAN = LogRatio(length="sum"), LogRatio(length="mean")


@pytest.fixture(autouse=True)
def in_double():
    """Weights of pairs are made in the default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def loss(link, score=SUM, **more):
    return PreferenceLoss(score=score, link=link, **more)


# trl 1.16.0, DPOTrainer: losses whose sum it is, tolerance.
TRL = {
    "sigmoid": ([loss(Sigmoid())], EXACT),
    "sigmoid_B1": ([loss(Sigmoid())], EXACT),
    "sigmoid_policy_eq_ref": ([loss(Sigmoid())], EXACT),
    "sigmoid_extreme": ([loss(Sigmoid(beta=1.0))], EXACT),
    "sigmoid_norm": ([loss(Sigmoid(), MEAN)], EXACT),
    "sigmoid_forward_kl": ([loss(Sigmoid(), DivergenceScore(divergence="forward_kl"))], EXACT),
    "sigmoid_js_divergence": (
        [loss(Sigmoid(), DivergenceScore(divergence="jensen_shannon"))],
        EXACT,
    ),
    # Raises KeyError in float64 there.
    "sigmoid_alpha_f32": ([loss(Sigmoid(), DivergenceScore(divergence="alpha"))], FLOAT32),
    "ld_alpha": ([loss(Sigmoid(), LengthDesensitisedLogRatio(alpha=0.5))], EXACT),
    "hinge": ([loss(Hinge())], EXACT),
    "ipo": ([loss(SquaredError(), MEAN)], EXACT),
    "ipo_len_mix": ([loss(SquaredError(beta=0.2), MEAN)], EXACT),
    # Its epsilon is a float32.
    "exo_pair": ([loss(EXO())], {"rtol": 1e-6, "atol": 1e-7}),
    "nca_pair": ([loss(NCA())], EXACT),
    "robust": ([loss(Sigmoid(), label_noise=0.1, unbiased=True)], EXACT),
    "bco_pair": ([loss(BCO())], EXACT),
    "sppo_hard": ([loss(SPPO())], EXACT),
    "apo_zero": ([loss(APOZero())], EXACT),
    "apo_down": ([loss(APODown())], EXACT),
    "discopop": ([loss(DiscoPOP())], EXACT),
    "sft": ([loss(Sigmoid(), pair_coef=0.0, nll_coef=1.0)], EXACT),
    "mpo_mix": (
        [loss(Sigmoid(), pair_coef=0.8, nll_coef=1.0), loss(BCO(), pair_coef=0.2)],
        EXACT,
    ),
}


def of_tokens(logits, ids):
    """Log-probs of all tokens at each place, and of the token there; 0 at the first."""
    every = logits.log_softmax(-1).roll(1, 1)
    own = every.gather(2, ids[:, :, None]).squeeze(2)
    first = torch.arange(ids.shape[1]) == 0
    return torch.where(first[None, :, None], 0.0, every), torch.where(first, 0.0, own)


def rows_of(logits, ref_logits, ids, mask):
    every, own = of_tokens(logits, ids)
    ref_every, ref_own = of_tokens(ref_logits, ids)
    rows = {"log_probs": own, "ref_log_probs": ref_own, "response_mask": mask}
    rows |= {"log_distribution": every, "ref_log_distribution": ref_every}
    return TensorDict(rows, batch_size=[len(ids)])


def in_pairs(rows):
    """Chosen rows stand in front there; here the two rows of a pair stand together."""
    half = len(rows) // 2
    rows["chosen"] = torch.arange(len(rows)) < half
    return rows[torch.arange(len(rows)).view(2, half).T.flatten()]


def compare(value, leaf, held, gradient="out.grad_logits", **tolerance):
    (found,) = torch.autograd.grad(value, leaf, retain_graph=True)
    torch.testing.assert_close(found, held[gradient], check_dtype=False, **tolerance)


@pytest.mark.parametrize("name", TRL)
def test_the_loss_is_that_of_trl(name):
    held = load_file(HERE / f"trl_dpo_{name}.safetensors")
    losses, tolerance = TRL[name]
    logits = held["in.logits"].requires_grad_()
    mask = held["in.completion_mask"].bool() & held["in.attention_mask"].bool()
    rows = in_pairs(rows_of(logits, held["in.ref_logits"], held["in.input_ids"], mask))

    value = sum(one(rows.copy())["loss"] for one in losses)

    torch.testing.assert_close(value, held["out.loss"], check_dtype=False, **tolerance)
    compare(value, logits, held, **tolerance)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(
    ("name", "beta", "alpha", "detach"),
    [("1_a0.0", 0.1, 1.0, False), ("2_a0.5", 0.1, 0.5, True), ("2_a1.0", 0.5, 1.0, True)],
)
def test_tdpo_is_that_of_its_authors(name, beta, alpha, detach, number):
    held = load_file(HERE / f"tdpo_{name}_{number}.safetensors")
    score = SequentialKL(alpha=alpha, detach_chosen=detach)
    logits = held["in.logits"].requires_grad_()
    mask = held["in.labels"] != -100
    rows = in_pairs(rows_of(logits, held["in.ref_logits"], held["in.labels"].clamp(min=0), mask))

    value = loss(Sigmoid(beta=beta), score)(rows)["loss"]

    torch.testing.assert_close(value, held["out.losses"].mean(), **EXACT)
    compare(value, logits, held, **EXACT)


def of_sums(chosen, rejected, ref_chosen=None, ref_rejected=None):
    """Pairs of answers of one token, whose log-probs are given."""
    rows = {"log_probs": torch.stack([chosen, rejected], 1).view(-1, 1)}
    if ref_chosen is not None:
        rows["ref_log_probs"] = torch.stack([ref_chosen, ref_rejected], 1).view(-1, 1)
    rows["response_mask"] = torch.ones(2 * len(chosen), 1, dtype=torch.bool)
    rows["chosen"] = torch.arange(2 * len(chosen)) % 2 == 0
    return TensorDict(rows, batch_size=[2 * len(chosen)])


# beta, label smoothing, IPO.
DPO = [
    *[(0.1, 0.0, False), (0.3, 0.1, False), (0.5, 0.2, False)],
    *[(0.1, 0.0, True), (0.05, 0.3, False), (1.0, 0.45, False)],
]


@pytest.mark.parametrize("peer", ["dporef", "openrlhf_dpo"])
@pytest.mark.parametrize("number", range(6))
def test_smoothed_labels_and_ipo_of_sums(peer, number):
    held = load_file(HERE / f"{peer}_{number}.safetensors")
    beta, noise, ipo = DPO[number]
    names = ("policy_chosen", "policy_rejected", "ref_chosen", "ref_rejected")
    given = [held[f"in.{name}"] for name in names]
    chosen, rejected = (one.requires_grad_() for one in given[:2])

    made = loss(SquaredError(beta=beta) if ipo else Sigmoid(beta=beta), label_noise=noise)
    value = made(of_sums(*given))["loss"]

    whole = held["out.losses"].mean() if "out.losses" in held else held["out.loss"]
    torch.testing.assert_close(value, whole, **EXACT)
    compare(value, chosen, held, "out.grad_chosen", **EXACT)
    compare(value, rejected, held, "out.grad_rejected", **EXACT)


CPO = {
    "cpo_simpo": loss(Sigmoid(beta=2.0, gamma=0.5), LogProb(length="mean")),
    "cpo_simpo_ls": loss(Sigmoid(beta=2.0, gamma=0.5), LogProb(length="mean"), label_noise=0.1),
    "cpo_simpo_alphapo": loss(Sigmoid(beta=2.0, gamma=0.5), LogProb(length="mean", alpha=0.25)),
    "cpo_sigmoid": loss(Sigmoid(), LogProb()),
    "cpo_hinge": loss(Hinge(), LogProb()),
    "cpo_ipo": loss(SquaredError(), LogProb(length="mean")),
    "orpo_or": loss(Sigmoid(beta=1.0), LogOdds(), pair_coef=0.1),
    "orpo_or_near0": loss(Sigmoid(beta=1.0), LogOdds(), pair_coef=0.1),
}


@pytest.mark.parametrize("name", CPO)
def test_losses_without_a_reference(name):
    held = load_file(HERE / f"trl_{name}.safetensors")
    chosen, rejected = held["in.chosen_logps"], held["in.rejected_logps"]
    orpo = name.startswith("orpo")
    # It computes in float32, and gives the reward lambda log s(...), to be maximised.
    tolerance = {"rtol": 3e-5, "atol": 3e-6} if orpo else EXACT

    value = CPO[name](of_sums(chosen.requires_grad_(), rejected.requires_grad_()))["loss"]

    whole = held["out.losses"].double().mean() * (-1 if orpo else 1)
    torch.testing.assert_close(value, whole, **tolerance)
    compare(value, chosen, held, "out.grad_chosen", **tolerance)
    compare(value, rejected, held, "out.grad_rejected", **tolerance)


KTO = {
    "mixed": {},
    "weights": {"desirable_weight": 1.33, "undesirable_weight": 0.9},
    "all_desirable": {},
    "all_undesirable": {},
    "apo_zero_unpaired": {},
}


@pytest.mark.parametrize("name", KTO)
def test_kto_against_the_mismatched_answers(name):
    held = load_file(HERE / f"trl_kto_{name}.safetensors")
    logits = held["in.logits"].requires_grad_()

    def rows(of, logits):
        mask = held[f"in.{of}completion_mask"].bool() & held[f"in.{of}attention_mask"].bool()
        return rows_of(logits, held[f"in.{of}ref_logits"], held[f"in.{of}input_ids"], mask)

    others = rows("KL_", held["in.KL_logits"])
    gap = others["log_probs"] - others["ref_log_probs"]
    baseline = torch.where(others["response_mask"], gap, 0.0).sum(1).mean().clamp(min=0)
    batch = rows("", logits).set("chosen", held["in.label"])
    if name == "apo_zero_unpaired":
        baseline = torch.zeros_like(baseline)
    batch["kl_baseline"] = baseline.expand(len(batch))

    value = KTOLoss(score=SUM, **KTO[name])(batch)["loss"]

    torch.testing.assert_close(value, held["out.loss"], **EXACT)
    compare(value, logits, held, **EXACT)
    assert not held["out.grad_KL_logits"].any()
