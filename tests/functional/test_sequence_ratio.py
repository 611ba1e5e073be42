import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.ratio import (
    log_ratio,
    sequence_ratio,
    sequence_token_ratio,
    whole_sequence_ratio,
)

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
def test_every_token_has_the_ratio_of_its_row_and_1_stands_elsewhere(function, value):
    ratio = function(LOG_RATIO, MASK)

    assert ratio[MASK].tolist() == pytest.approx([value] * 3, abs=1e-7)
    assert bool((ratio[~MASK] == 1).all())


@pytest.mark.parametrize("function", ALL)
def test_the_gradient_is_0_outside_the_mask_and_in_an_empty_row(function):
    x = leaf()

    function(x, MASK).sum().backward()

    assert bool((x.grad[~MASK] == 0).all())


def test_each_token_moves_the_ratio_of_its_sequence_by_its_share():
    # d s_i / d x_t = s_i / n_i
    x = leaf()

    sequence_ratio(x, MASK)[0, 1].backward()

    assert x.grad[0].tolist() == pytest.approx([0, *[0.9048374 / 3] * 2, 0, 0.9048374 / 3])


def test_the_mean_of_a_row_moves_as_the_likelihood_of_its_sequence():
    # d r_i / d x_t = r_i
    x = leaf()

    whole_sequence_ratio(x, MASK)[0][MASK[0]].mean().backward()

    assert x.grad[0].tolist() == pytest.approx([0, *[0.7408182] * 2, 0, 0.7408182])


def test_in_rloo_a_token_moves_only_its_own_share_of_the_mean():
    # d mean_s(r_s A_s) / d x_t = r_i A_t
    x = leaf()
    advantage = torch.tensor([0.0, 2.0, -1.0, 0.0, 0.5], dtype=torch.float64)

    (whole_sequence_ratio(x, MASK)[0] * advantage)[MASK[0]].mean().backward()

    assert x.grad[0].tolist() == pytest.approx([0, 1.4816364, -0.7408182, 0, 0.3704091])


def test_in_gspo_token_a_token_moves_only_its_own_ratio():
    x = leaf()

    sequence_token_ratio(x, MASK)[0, 1].backward()

    assert x.grad[0].tolist() == pytest.approx([0, 0.9048374, 0, 0, 0])


@pytest.mark.parametrize("tokens", [1, 5])
def test_a_sum_beyond_20_is_cut_and_has_no_gradient(tokens):
    x = torch.full((1, tokens), 20.0 if tokens == 5 else 21.0, requires_grad=True)

    ratio = whole_sequence_ratio(x, torch.ones(1, tokens).bool())
    ratio.sum().backward()

    assert ratio[0, 0].item() == pytest.approx(4.851652e8, rel=1e-6)  # exp(20)
    assert x.grad.abs().max() == 0


numbers = st.lists(st.floats(-1, 1), min_size=6, max_size=6)
masks = st.lists(st.booleans(), min_size=6, max_size=6)


@given(numbers, st.integers(0, 5))
def test_for_one_token_all_are_its_own_ratio(values, place):
    x = torch.tensor([values], dtype=torch.float64)
    mask = torch.arange(6)[None] == place
    x = torch.where(mask, x, 0.0)

    for function in ALL:
        torch.testing.assert_close(function(x, mask), x.exp())


@given(st.floats(-1, 1), masks)
def test_where_all_tokens_agree_the_sequence_does(value, inside):
    mask = torch.tensor([inside])
    x = torch.where(mask, torch.tensor(value, dtype=torch.float64), 0.0)

    torch.testing.assert_close(sequence_ratio(x, mask), x.exp())


@given(numbers, masks, st.permutations(range(6)))
def test_the_order_of_tokens_does_not_matter(values, inside, order):
    x, mask = torch.tensor([values], dtype=torch.float64), torch.tensor([inside])
    x = torch.where(mask, x, 0.0)

    for function in (sequence_ratio, whole_sequence_ratio):
        torch.testing.assert_close(
            function(x[:, order], mask[:, order]), function(x, mask)[:, order]
        )


@given(numbers, masks)
def test_both_forms_of_a_sequence_have_one_gradient_under_equal_weights(values, inside):
    mask, gradients = torch.tensor([inside]), []
    for function in (sequence_ratio, sequence_token_ratio):
        lp = torch.tensor([values], dtype=torch.float64, requires_grad=True)
        function(log_ratio(lp, torch.zeros_like(lp), mask), mask).mean().backward()
        gradients.append(lp.grad)

    torch.testing.assert_close(*gradients)
