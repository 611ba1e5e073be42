import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from rlcomp.errors import ShapeError
from rlcomp.functional.ratio import log_ratio
from rlcomp.functional.reduction import sequence_mean, sequence_sum, token_mean
from rlcomp.functional.surrogate import clipped_surrogate

GOLDEN = Path(__file__).parents[1] / "golden" / "policy" / "verl__policy_loss_vanilla.safetensors"
REDUCTIONS = {
    "token-mean": token_mean,
    "seq-mean-token-sum": sequence_sum,
    "seq-mean-token-mean": sequence_mean,
}


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


@pytest.mark.parametrize(
    ("advantage", "loss", "gradient"),
    [
        # ratios 1.2214, 0.6065, 1. A = 1: the first is cut at 1.2, so
        # -(1.2 + 0.6065307 + 1) / 3 and gradients -r / 3, none where cut.
        (1.0, -0.9355102, (0, -0.2021769, -0.3333333)),
        # A = -1: the second is cut at 0.8: (1.2214028 + 0.8 + 1) / 3.
        (-1.0, 1.0071343, (0.4071343, 0, 0.3333333)),
    ],
)
def test_three_tokens_by_hand(advantage, loss, gradient):
    log_probs = row(-1, -2, -0.5).requires_grad_()
    ratio = log_ratio(log_probs, row(-1.2, -1.5, -0.5), torch.ones(1, 3).bool()).exp()

    value = -clipped_surrogate(ratio, torch.full_like(ratio, advantage), 0.2, 0.2).mean()
    value.backward()

    assert value.item() == pytest.approx(loss, abs=1e-7)
    torch.testing.assert_close(log_probs.grad, row(*gradient), atol=1e-7, rtol=0)


def test_verl_s_loss_and_gradient_are_reproduced():
    with safe_open(GOLDEN, "pt") as file:
        for case, arguments in json.loads(file.metadata()["cases"]).items():
            inside = file.get_tensor(f"{case}/in/response_mask").bool()
            log_probs = file.get_tensor(f"{case}/in/log_prob").requires_grad_()
            old = file.get_tensor(f"{case}/in/old_log_prob")
            advantage = torch.where(inside, file.get_tensor(f"{case}/in/advantages"), 0.0)

            ratio = log_ratio(log_probs, old, inside).exp()
            low, high = arguments["clip_ratio_low"], arguments["clip_ratio_high"]
            surrogate = clipped_surrogate(ratio, advantage, low, high)
            weight = REDUCTIONS[arguments["loss_agg_mode"]](inside).double()
            loss = -(surrogate * weight).sum()
            loss.backward()

            # The weights are float32.
            for got, want in [
                (loss, file.get_tensor(f"{case}/out/loss")),
                (log_probs.grad, file.get_tensor(f"{case}/grad/log_prob")),
            ]:
                torch.testing.assert_close(got, want, atol=1e-7, rtol=1e-6)


positive = st.floats(0.01, 5)
real = st.floats(-3, 3)


@given(positive, real, st.floats(0, 0.99), st.floats(0, 2))
def test_it_is_never_above_the_unclipped_objective(ratio, advantage, low, high):
    r, a = row(ratio), row(advantage)

    assert bool((clipped_surrogate(r, a, low, high) <= r * a).all())


@given(st.floats(0.8, 1.2), real)
def test_inside_the_bounds_it_is_the_unclipped_objective(ratio, advantage):
    r, a = row(ratio), row(advantage)

    torch.testing.assert_close(clipped_surrogate(r, a, 0.2, 0.2), r * a)


def test_a_step_back_towards_the_old_policy_is_never_cut():
    # A > 0 below the floor, A < 0 above the ceiling: the gradient is the advantage.
    ratio = row(0.5, 1.5).requires_grad_()

    clipped_surrogate(ratio, row(1, -1), 0.2, 0.2).sum().backward()

    assert ratio.grad.tolist() == [[1.0, -1.0]]


def test_the_two_bounds_are_separate():
    ratio, advantage = row(2, 0.1), row(1, -1)

    assert clipped_surrogate(ratio, advantage, 0.2, 0.28).tolist() == [[1.28, -0.8]]


def test_at_ratio_1_the_gradient_is_the_advantage():
    ratio = row(1, 1).requires_grad_()

    clipped_surrogate(ratio, row(2, -3), 0.2, 0.2).sum().backward()

    assert ratio.grad.tolist() == [[2.0, -3.0]]


def test_different_shapes_are_refused():
    with pytest.raises(
        ShapeError, match=r"'ratio' has shape \[1, 2\], but 'advantage' has \[1, 3\]"
    ):
        clipped_surrogate(row(1, 1), row(1, 1, 1), 0.2, 0.2)
