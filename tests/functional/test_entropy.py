import pytest
import torch

from rlcomp.engine.logprob import entropy, log_distribution


def test_the_log_prob_of_the_taken_token_has_the_value_of_the_entropy_but_no_gradient():
    logits = torch.tensor([[1.0, 0.0, -2.0]], dtype=torch.float64, requires_grad=True)
    log_probs = logits.log_softmax(-1)

    surrogate = (log_probs.detach().exp() * -log_probs).sum()
    (gradient,) = torch.autograd.grad(surrogate, logits, retain_graph=True)
    (exact,) = torch.autograd.grad(entropy(logits, 1.0).sum(), logits)

    assert surrogate.item() == pytest.approx(entropy(logits, 1.0).item())
    torch.testing.assert_close(gradient, torch.zeros_like(gradient))
    assert exact.abs().max() > 0.1


def test_the_log_distribution_is_that_of_the_entropy():
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 7, generator=draw, dtype=torch.float64)
    suppressed = torch.tensor([False] * 6 + [True])

    whole = log_distribution(logits, 0.5, suppressed)

    torch.testing.assert_close(whole.exp().sum(-1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(-(whole.exp() * whole).sum(-1), entropy(logits, 0.5, suppressed))


def test_a_barred_token_has_the_least_log_prob_and_no_gradient():
    logits = torch.zeros(1, 3, requires_grad=True)

    whole = log_distribution(logits, 1.0, torch.tensor([False, False, True]))
    whole[0, 0].backward()

    assert whole[0, 2].item() == torch.finfo(torch.float32).min
    # d log p_0 / d z = (1 - p_0, -p_1) = (1/2, -1/2).
    assert logits.grad.tolist() == [[0.5, -0.5, 0.0]]


def test_a_greedy_distribution_is_a_point():
    whole = log_distribution(torch.tensor([[1.0, 3.0, 2.0]]), 0.0)

    assert whole.exp().tolist() == [[0.0, 1.0, 0.0]]
