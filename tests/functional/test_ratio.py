import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import NumericalError, ShapeError
from rlcomp.functional.ratio import (
    LOG_RATIO_BOUND,
    effective_sample_size,
    log_distance,
    log_ratio,
    old_policy_kl,
    sampler_kl,
    sequence_ratio,
    sequence_token_ratio,
    whole_sequence_ratio,
)

NAN, INF = float("nan"), float("inf")


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


FULL = torch.ones(1, 3, dtype=torch.bool)


def test_log_ratio_by_hand():
    # e^(-1 + 1.2), e^(-2 + 1.5), e^0.
    ratio = log_ratio(row(-1, -2, -0.5), row(-1.2, -1.5, -0.5), FULL).exp()

    torch.testing.assert_close(ratio, row(1.2214028, 0.6065307, 1), atol=1e-7, rtol=0)


def test_the_gradient_of_the_ratio_is_the_ratio():
    log_probs = row(-1, -2, -0.5).requires_grad_()

    log_ratio(log_probs, row(-1.2, -1.5, -0.5), FULL).exp().sum().backward()

    torch.testing.assert_close(log_probs.grad, row(1.2214028, 0.6065307, 1), atol=1e-7, rtol=0)


def test_no_gradient_reaches_the_old_policy():
    old = row(-1.2, -1.5, -0.5).requires_grad_()

    assert not log_ratio(row(-1, -2, -0.5), old, FULL).requires_grad


def test_log_ratio_outside_the_mask_is_0():
    mask = torch.tensor([[True, False, False]])
    log_probs = row(-1, NAN, INF).requires_grad_()

    ratio = log_ratio(log_probs, row(-1, 0, NAN), mask).exp()
    ratio.sum().backward()

    assert ratio.tolist() == [[1.0, 1.0, 1.0]]
    assert log_probs.grad.tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("apart", [100.0, -100.0])
def test_log_ratio_is_clamped_without_gradient(apart):
    log_probs = row(apart, 0, 0).requires_grad_()

    ratio = log_ratio(log_probs, row(0, 0, 0), FULL).exp()
    ratio.sum().backward()

    assert ratio[0, 0].item() == pytest.approx(math.exp(math.copysign(LOG_RATIO_BOUND, apart)))
    assert log_probs.grad[0, 0].item() == 0.0


def test_log_ratio_of_different_shapes_raises():
    with pytest.raises(
        ShapeError, match=r"'log_probs' .*\[1, 3\].*'old_log_probs' \[1, 2\].*'mask'"
    ):
        log_ratio(row(0, 0, 0), row(0, 0), FULL)


@pytest.mark.parametrize("bad", [float("nan"), -float("inf")])
def test_log_ratio_of_an_infinite_log_prob_raises(bad):
    with pytest.raises(NumericalError, match=r"'old_log_probs' is .* at \[0, 1\]"):
        log_ratio(torch.zeros(1, 2), torch.tensor([[0.0, bad]]), torch.ones(1, 2).bool())


def test_log_ratio_takes_masks_of_any_dtype():
    for mask in (torch.tensor([[1, 0]]), torch.tensor([[1.0, 0.0]])):
        assert log_ratio(torch.ones(1, 2), torch.zeros(1, 2), mask).tolist() == [[1.0, 0.0]]


log_ratios = st.lists(st.floats(-3, 3), min_size=4, max_size=4)


def test_ratio_distances_by_hand():
    # 2 - 1 - log 2, 0, 0.5 - 1 + log 2
    kl = old_policy_kl(torch.tensor([[2.0, 1.0, 0.5]]))

    torch.testing.assert_close(kl, torch.tensor([[0.3068528, 0.0, 0.1931472]]))


def test_distances_of_the_smallest_ratio_are_finite():
    ratio = torch.tensor([-20.0]).exp()

    # 0 - 1 + 20
    assert old_policy_kl(ratio).item() == pytest.approx(19.0)


@given(log_ratios, log_ratios)
def test_old_policy_kl_has_the_value_and_gradient_of_the_kl(old, new):
    old_log = torch.tensor(old, dtype=torch.float64).log_softmax(0)
    logits = torch.tensor(new, dtype=torch.float64, requires_grad=True)
    log = logits.log_softmax(0)

    sampled = (old_log.exp() * old_policy_kl((log - old_log).exp())).sum()
    exact = (old_log.exp() * (old_log - log)).sum()
    (of_sampled,) = torch.autograd.grad(sampled, logits, retain_graph=True)
    (of_exact,) = torch.autograd.grad(exact, logits)

    torch.testing.assert_close(sampled, exact)
    torch.testing.assert_close(of_sampled, of_exact)


def test_distances_at_ratio_1_have_no_gradient():
    ratio = torch.ones(1, requires_grad=True)

    (old_policy_kl(ratio) + log_distance(ratio)).sum().backward()

    assert ratio.grad.item() == 0


def test_log_distance_grows_by_1_per_nat():
    log_probs = torch.tensor([0.5, -0.5], requires_grad=True)

    distance = log_distance(log_probs.exp())
    distance.sum().backward()

    assert distance.tolist() == pytest.approx([0.5, 0.5])
    assert log_probs.grad.tolist() == pytest.approx([1, -1])


def test_log_distance_within_rounding_is_0():
    # The neighbours of 1 in float32: log-probs of the same tokens, read in another batch.
    ratio = torch.tensor([1 - 2**-24, 1 + 2**-23, 1 + 1e-4], requires_grad=True)

    distance = log_distance(ratio)
    distance.sum().backward()

    assert distance.tolist() == pytest.approx([0, 0, 1e-4], abs=1e-6)
    assert ratio.grad.tolist() == pytest.approx([0, 0, 1], abs=1e-3)


LOGS = st.lists(st.floats(-5, 5), min_size=1, max_size=6)


def test_effective_sample_size_by_hand():
    # (4 + 1 + 1)^2 / (3 (16 + 1 + 1)) = 36 / 54.
    log_weight = torch.tensor([4.0, 1.0, 1.0], dtype=torch.float64).log()

    assert effective_sample_size(log_weight).item() == pytest.approx(2 / 3)


def test_effective_sample_size_of_one_dominating_weight():
    assert effective_sample_size(torch.tensor([2000.0, 0.0, 0.0])).item() == pytest.approx(1 / 3)


def test_effective_sample_size_of_no_weights_is_1():
    assert effective_sample_size(torch.zeros(0)).item() == 1.0


@given(LOGS, st.floats(-50, 50))
def test_effective_sample_size_ignores_a_common_factor(logs, shift):
    log_weight = torch.tensor(logs, dtype=torch.float64)

    size = effective_sample_size(log_weight).item()

    assert 1 / len(logs) - 1e-9 <= size <= 1 + 1e-9
    assert effective_sample_size(log_weight + shift).item() == pytest.approx(size)


def test_sampler_kl_has_the_mean_of_the_kl_and_is_not_negative():
    # Sampler (3/4, 1/4), trainer (1/2, 1/2): KL = 3/4 log(3/2) + 1/4 log(1/2).
    sampler, trainer = torch.tensor([0.75, 0.25]), torch.tensor([0.5, 0.5])
    terms = sampler_kl((trainer / sampler).log())

    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert float((sampler.double() * terms).sum()) == pytest.approx(expected, abs=1e-7)
    assert bool((sampler_kl(torch.linspace(-5, 5, 101)) >= 0).all())
    assert terms.dtype == torch.float64


ALL = [sequence_ratio, sequence_token_ratio, whole_sequence_ratio]
MASK = torch.tensor([[False, True, True, False, True], [False] * 5])


# The sum of the first row is -0.3, its mean -0.1.
LOG_RATIO = torch.tensor([[0.0, 0.2, -0.5, 0.0, 0.0], [0.0] * 5], dtype=torch.float64)


def leaf():
    return LOG_RATIO.clone().requires_grad_()


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (sequence_ratio, 0.9048374),  # exp(-0.1)
        (sequence_token_ratio, 0.9048374),
        (whole_sequence_ratio, 0.7408182),  # exp(-0.3)
    ],
)
def test_sequence_ratios_by_hand(function, value):
    ratio = function(LOG_RATIO, MASK)

    assert ratio[MASK].tolist() == pytest.approx([value] * 3, abs=1e-7)
    assert bool((ratio[~MASK] == 1).all())


@pytest.mark.parametrize("function", ALL)
def test_sequence_ratio_gradient_outside_the_mask_is_0(function):
    x = leaf()

    function(x, MASK).sum().backward()

    assert bool((x.grad[~MASK] == 0).all())


def test_sequence_ratio_gradient_by_token():
    # d s_i / d x_t = s_i / n_i
    x = leaf()

    sequence_ratio(x, MASK)[0, 1].backward()

    assert x.grad[0].tolist() == pytest.approx([0, *[0.9048374 / 3] * 2, 0, 0.9048374 / 3])


def test_mean_ratio_of_a_row_has_the_sequence_gradient():
    # d r_i / d x_t = r_i
    x = leaf()

    whole_sequence_ratio(x, MASK)[0][MASK[0]].mean().backward()

    assert x.grad[0].tolist() == pytest.approx([0, *[0.7408182] * 2, 0, 0.7408182])


def test_whole_sequence_ratio_gradient_is_by_token():
    # d mean_s(r_s A_s) / d x_t = r_i A_t
    x = leaf()
    advantage = torch.tensor([0.0, 2.0, -1.0, 0.0, 0.5], dtype=torch.float64)

    (whole_sequence_ratio(x, MASK)[0] * advantage)[MASK[0]].mean().backward()

    assert x.grad[0].tolist() == pytest.approx([0, 1.4816364, -0.7408182, 0, 0.3704091])


def test_sequence_token_ratio_gradient_is_by_token():
    x = leaf()

    sequence_token_ratio(x, MASK)[0, 1].backward()

    assert x.grad[0].tolist() == pytest.approx([0, 0.9048374, 0, 0, 0])


@pytest.mark.parametrize("tokens", [1, 5])
def test_whole_sequence_ratio_is_clamped_without_gradient(tokens):
    x = torch.full((1, tokens), 20.0 if tokens == 5 else 21.0, requires_grad=True)

    ratio = whole_sequence_ratio(x, torch.ones(1, tokens).bool())
    ratio.sum().backward()

    assert ratio[0, 0].item() == pytest.approx(4.851652e8, rel=1e-6)  # exp(20)
    assert x.grad.abs().max() == 0


numbers = st.lists(st.floats(-1, 1), min_size=6, max_size=6)
masks = st.lists(st.booleans(), min_size=6, max_size=6)


@given(numbers, st.integers(0, 5))
def test_sequence_ratios_of_one_token_are_the_token_ratio(values, place):
    x = torch.tensor([values], dtype=torch.float64)
    mask = torch.arange(6)[None] == place
    x = torch.where(mask, x, 0.0)

    for function in ALL:
        torch.testing.assert_close(function(x, mask), x.exp())


@given(st.floats(-1, 1), masks)
def test_sequence_ratio_of_equal_tokens_is_the_token_ratio(value, inside):
    mask = torch.tensor([inside])
    x = torch.where(mask, torch.tensor(value, dtype=torch.float64), 0.0)

    torch.testing.assert_close(sequence_ratio(x, mask), x.exp())


@given(numbers, masks, st.permutations(range(6)))
def test_sequence_ratios_ignore_the_order_of_tokens(values, inside, order):
    x, mask = torch.tensor([values], dtype=torch.float64), torch.tensor([inside])
    x = torch.where(mask, x, 0.0)

    for function in (sequence_ratio, whole_sequence_ratio):
        torch.testing.assert_close(
            function(x[:, order], mask[:, order]), function(x, mask)[:, order]
        )


@given(numbers, masks)
def test_gspo_forms_have_one_gradient_under_equal_weights(values, inside):
    mask, gradients = torch.tensor([inside]), []
    for function in (sequence_ratio, sequence_token_ratio):
        lp = torch.tensor([values], dtype=torch.float64, requires_grad=True)
        function(log_ratio(lp, torch.zeros_like(lp), mask), mask).mean().backward()
        gradients.append(lp.grad)

    torch.testing.assert_close(*gradients)
