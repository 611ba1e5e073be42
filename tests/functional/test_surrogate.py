import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ShapeError
from rlcomp.functional.ratio import log_ratio
from rlcomp.functional.surrogate import (
    bounded_surrogate,
    clipped_surrogate,
    dual_clipped_surrogate,
    gated_surrogate,
    neutral_outside,
    outside_bounds,
    weighted_log_probs,
)


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


def test_bounds_among_float64_ratios_are_not_those_of_float32():
    # 1 + 0.2 as float32 is 1.2000000477.
    cut = clipped_surrogate(row(2), row(1), 0.2, 0.2)

    assert cut.item() == 1.2


ONE_SEQUENCE = ((-1, -2, -0.5), (-1.2, -1.5, -0.5))


def slopes(surrogate, advantage):
    """Loss (a mean) and gradient of ``surrogate(log_probs, ratio, advantage)`` on three tokens."""
    log_probs = row(*ONE_SEQUENCE[0]).requires_grad_()
    ratio = log_ratio(log_probs, row(*ONE_SEQUENCE[1]), torch.ones(1, 3).bool()).exp()
    loss = -surrogate(log_probs, ratio, torch.full_like(ratio, advantage)).mean()
    loss.backward()
    return loss.item(), log_probs.grad[0].tolist()


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_cispo_on_three_tokens_by_hand(advantage):
    # Weights 1.2, 0.8, 1 (cut from 1.2214, 0.6065, 1), log-probs -1, -2, -0.5, advantage 1:
    # (1.2 + 1.6 + 0.5) / 3 = 1.1; each gradient is -weight / 3, none is 0.
    loss, gradient = slopes(lambda lp, r, a: weighted_log_probs(lp, r, a, 0.8, 1.2), advantage)

    assert loss == pytest.approx(1.1 * advantage)
    assert gradient == pytest.approx([-x * advantage for x in (0.4, 0.2666667, 0.3333333)])


@pytest.mark.parametrize(
    ("advantage", "loss", "gradient"),
    [
        # First token, A = 1: 4 / (1 + exp(-0.2214028)) = 2.2205, slope 4 s (1 - s) r = 1.2065562.
        (1.0, -1.9440108, (-0.4021854, -0.1945493, -0.3333333)),
        (-1.0, 1.8489100, (0.4016827, 0.1937893, 0.3333333)),
    ],
)
def test_sapo_on_three_tokens_by_hand(advantage, loss, gradient):
    result = slopes(lambda lp, r, a: gated_surrogate(r, a, 1.0, 1.05), advantage)

    assert result[0] == pytest.approx(loss, abs=1e-7)
    assert result[1] == pytest.approx(gradient, abs=1e-7)


def test_sapo_s_slope_at_ratio_1_is_the_advantage():
    ratio = row(1, 1).requires_grad_()

    gated_surrogate(ratio, row(2, -3), 0.7, 1.9).sum().backward()

    assert ratio.grad.tolist()[0] == pytest.approx([2, -3])


def test_a_dual_clip_stops_where_a_token_counts_too_much():
    # A < 0: max(-5, 3 * -1) = -3, and no gradient; A > 0 is PPO's cut at 1.2.
    ratio = row(5, 2, 5).requires_grad_()

    surrogate = dual_clipped_surrogate(ratio, row(-1, -1, 1), 0.2, 0.2, 3.0)
    surrogate.sum().backward()

    assert surrogate[0].tolist() == pytest.approx([-3, -2, 1.2])
    assert ratio.grad.tolist() == [[0, -1, 0]]


@given(positive, real, st.floats(0, 0.9), st.floats(0, 0.9), st.floats(2, 4))
def test_a_dual_clip_is_a_two_sided_one(ratio, advantage, low, high, cap):
    r, a = row(ratio), row(advantage)

    two_sided = torch.minimum(r.clamp(max=cap) * a, r.clamp(1 - low, 1 + high) * a)

    torch.testing.assert_close(dual_clipped_surrogate(r, a, low, high, cap), two_sided)


@given(positive, real)
def test_without_bounds_the_clip_is_plain_importance_sampling(ratio, advantage):
    r, a = row(ratio), row(advantage)

    torch.testing.assert_close(clipped_surrogate(r, a, 0.999, 1e9), r * a)


@given(st.floats(-1, 1), real.filter(lambda advantage: abs(advantage) > 1e-3))
def test_cispo_has_ppo_s_gradient_where_ppo_does_not_clip(log_prob, advantage):
    log_probs, a = row(log_prob).requires_grad_(), row(advantage)
    ratio = log_probs.exp()
    (of_ppo,) = torch.autograd.grad(
        clipped_surrogate(ratio, a, 0.5, 0.5).sum(), log_probs, retain_graph=True
    )
    weighted = weighted_log_probs(log_probs, ratio, a, 0.5, 1.5)
    (of_cispo,) = torch.autograd.grad(weighted.sum(), log_probs)

    inside = (ratio > 0.5) & (ratio < 1.5)
    torch.testing.assert_close(of_cispo[inside], of_ppo[inside])
    assert bool(of_cispo != 0)


def test_what_stands_outside_the_mask_is_emptied():
    ratio, advantage = neutral_outside(
        row(2, math.nan), row(math.inf, math.inf), torch.tensor([[True, False]])
    )

    assert ratio.tolist() == [[2, 1]]
    assert advantage.tolist() == [[math.inf, 0]]


def test_tokens_without_gradient_are_those_beyond_a_bound_in_the_advantage_s_direction():
    # At a bound, and without an advantage, nothing is cut.
    ratio, advantage = row(0.5, 0.5, 2, 2, 0.5, 2, 0.8, 1.2), row(1, -1, 1, -1, 0, 0, -1, 1)

    low, high = outside_bounds(ratio, advantage, 0.8, 1.2)

    assert low.nonzero().tolist() == [[0, 1]]
    assert high.nonzero().tolist() == [[0, 2]]


@given(positive, real)
def test_bounds_may_differ_between_rows(ratio, advantage):
    r, a = row(ratio).expand(2, 1), row(advantage).expand(2, 1)
    floor, ceiling = row(0.8, 0.6).T, row(1.2, 3.0).T

    result = bounded_surrogate(r, a, floor, ceiling)

    for n, (low, high) in enumerate([(0.2, 0.2), (0.4, 2.0)]):
        torch.testing.assert_close(result[n : n + 1], clipped_surrogate(r[:1], a[:1], low, high))


@pytest.mark.parametrize(
    # Ratios 0.25 and 8, advantages 1 and -2, log-probs -1 and -3: -r and 6 r of each weight.
    ("floor", "ceiling", "want"),
    [
        (None, None, [-0.25, 48.0]),
        (0.5, None, [-0.5, 48.0]),
        (None, 5.0, [-0.25, 30.0]),
        (0.5, 5.0, [-0.5, 30.0]),
    ],
)
def test_a_weight_has_a_floor_a_ceiling_both_or_neither(floor, ceiling, want):
    ratio, advantage = torch.tensor([[0.25, 8.0]]), torch.tensor([[1.0, -2.0]])

    result = weighted_log_probs(torch.tensor([[-1.0, -3.0]]), ratio, advantage, floor, ceiling)

    assert result.tolist() == [want]
