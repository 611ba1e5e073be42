import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.ratio import log_distance, old_policy_kl

scores = st.lists(st.floats(-3, 3), min_size=4, max_size=4)


def test_by_hand():
    # 2 - 1 - log 2, 0, 0.5 - 1 + log 2
    kl = old_policy_kl(torch.tensor([[2.0, 1.0, 0.5]]))

    torch.testing.assert_close(kl, torch.tensor([[0.3068528, 0.0, 0.1931472]]))


def test_the_smallest_ratio_of_a_clamped_log_is_finite():
    ratio = torch.tensor([-20.0]).exp()

    # 0 - 1 + 20
    assert old_policy_kl(ratio).item() == pytest.approx(19.0)


@given(scores, scores)
def test_summed_over_actions_value_and_gradient_are_those_of_the_kl(old, new):
    old_log = torch.tensor(old, dtype=torch.float64).log_softmax(0)
    logits = torch.tensor(new, dtype=torch.float64, requires_grad=True)
    log = logits.log_softmax(0)

    sampled = (old_log.exp() * old_policy_kl((log - old_log).exp())).sum()
    exact = (old_log.exp() * (old_log - log)).sum()
    (of_sampled,) = torch.autograd.grad(sampled, logits, retain_graph=True)
    (of_exact,) = torch.autograd.grad(exact, logits)

    torch.testing.assert_close(sampled, exact)
    torch.testing.assert_close(of_sampled, of_exact)


def test_at_ratio_1_there_is_no_gradient():
    ratio = torch.ones(1, requires_grad=True)

    (old_policy_kl(ratio) + log_distance(ratio)).sum().backward()

    assert ratio.grad.item() == 0


def test_the_distance_grows_by_1_per_nat_on_either_side():
    log_probs = torch.tensor([0.5, -0.5], requires_grad=True)

    distance = log_distance(log_probs.exp())
    distance.sum().backward()

    assert distance.tolist() == pytest.approx([0.5, 0.5])
    assert log_probs.grad.tolist() == pytest.approx([1, -1])


def test_the_rounding_of_a_log_prob_is_no_distance():
    # The neighbours of 1 in float32: log-probs of the same tokens, read in another batch.
    ratio = torch.tensor([1 - 2**-24, 1 + 2**-23, 1 + 1e-4], requires_grad=True)

    distance = log_distance(ratio)
    distance.sum().backward()

    assert distance.tolist() == pytest.approx([0, 0, 1e-4], abs=1e-6)
    assert ratio.grad.tolist() == pytest.approx([0, 0, 1], abs=1e-3)
