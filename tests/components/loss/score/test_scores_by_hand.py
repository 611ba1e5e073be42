"""Scores by hand: two tokens of the chosen answer, one of the rejected; 9 stands outside."""

import math

import pytest
import torch

from components.loss.score import (
    DivergenceScore,
    LengthDesensitisedLogRatio,
    LogOdds,
    LogProb,
    LogRatio,
    PenalisedLogRatio,
    SequentialKL,
)
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch

HALF = math.log(0.5)


def rows(**more):
    # h = -0.5 - 0.25 of the chosen answer, -2 of the rejected one.
    return make_batch(
        log_probs=torch.tensor([[9.0, -2.0, -1.0], [9.0, -3.0, 9.0]], requires_grad=True),
        ref_log_probs=[[9.0, -1.5, -0.75], [9.0, -1.0, -9.0]],
        response_mask=[[False, True, True], [False, True, False]],
        chosen=[True, False],
        common_length=[1, 1],
        **more,
    )


@pytest.mark.parametrize(
    ("score", "chosen", "rejected"),
    [
        (LogRatio(), -0.75, -2.0),
        (LogRatio(length="mean"), -0.375, -2.0),
        (LogProb(), -3.0, -3.0),
        (LogProb(length="mean"), -1.5, -3.0),
        (LogProb(length="mean", alpha=0.5), 2 * (1 - math.exp(0.75)), 2 * (1 - math.exp(1.5))),
        (LogOdds(), *(a - math.log(1 - math.exp(a)) for a in (-1.5, -3.0))),
        # -0.75 - 50 * 0.75: of the rejected answer no penalty is asked.
        (PenalisedLogRatio(), -38.25, -2.0),
        (PenalisedLogRatio(penalty=5.0), -4.5, -2.0),
        # The token beyond the shorter answer counts half.
        (LengthDesensitisedLogRatio(), -0.5 - 0.125, -2.0),
        (LengthDesensitisedLogRatio(alpha=0.0), -0.5, -2.0),
        (DivergenceScore(), 1 - math.exp(0.75), 1 - math.exp(2.0)),
        (
            DivergenceScore(divergence="jensen_shannon"),
            *(math.log(2 / (1 + math.exp(-h))) for h in (-0.75, -2.0)),
        ),
        # alpha is 1/2 unless it is said: (e^(-h / 2) - 1) / (-1/2).
        (DivergenceScore(divergence="alpha"), *(2 - 2 * math.exp(-h / 2) for h in (-0.75, -2.0))),
        (DivergenceScore(divergence="alpha", alpha=2.0), *(math.exp(h) - 1 for h in (-0.75, -2.0))),
    ],
)
def test_the_score_of_both_answers(score, chosen, rejected):
    found = score(rows())["score"]

    assert found.tolist() == pytest.approx([chosen, rejected], rel=1e-6)
    assert found.requires_grad


def test_the_penalty_adds_to_the_slope_of_a_chosen_answer_that_became_less_likely():
    batch = rows()

    PenalisedLogRatio(penalty=5.0)(batch)["score"].sum().backward()

    assert batch["log_probs"].grad.tolist() == [[0, 6, 6], [0, 1, 0]]


def distributions():
    """Over two tokens: reference 1/2, 1/2 everywhere, the policy 1/4, 3/4."""
    ref = torch.full((2, 3, 2), HALF)
    policy = torch.tensor([0.25, 0.75]).log().expand(2, 3, 2).clone().requires_grad_()
    return {"log_distribution": policy, "ref_log_distribution": ref}


@pytest.mark.parametrize(
    ("settings", "alpha", "slope"),
    [({}, 0.5, 0.0), ({"alpha": 1.0, "detach_chosen": False}, 1.0, -0.5)],
)
def test_the_sequential_kl_is_added_and_held_for_chosen_answers(settings, alpha, slope):
    batch = rows(**distributions())
    # KL(ref || pi) of a position: (log 2 + log(2/3)) / 2.
    kl = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)

    found = SequentialKL(**settings)(batch)["score"]
    found.sum().backward()

    assert found.tolist() == pytest.approx([-0.75 + alpha * 2 * kl, -2.0 + alpha * kl])
    # d KL / d log pi(v) = -ref(v) in the two positions of the chosen answer, the one of the other.
    grad = batch["log_distribution"].grad
    assert grad[0].flatten().tolist() == pytest.approx([0, 0, *[slope] * 4])
    assert grad[1].flatten().tolist() == pytest.approx([0, 0, -0.5 * alpha, -0.5 * alpha, 0, 0])


def test_the_alpha_divergence_at_1_is_refused():
    with pytest.raises(ConfigError, match=r"alpha is 1, .*loss=dpo"):
        DivergenceScore(divergence="alpha", alpha=1.0)
    assert DivergenceScore(divergence="forward_kl", alpha=1.0).alpha == 1.0
