import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Categorical, kl_divergence

from rlcomp.functional.gradients import assign, conjugate_gradient, fisher_product, flat


def positive(size, seed):
    torch.manual_seed(seed)
    root = torch.randn(size, size, dtype=torch.float64)
    return root @ root.T + torch.eye(size)


@given(st.integers(1, 8), st.integers(0, 50))
def test_conjugate_gradient_is_exact_after_n_steps(size, seed):
    matrix = positive(size, seed)
    target = torch.randn(size, dtype=torch.float64)

    result = conjugate_gradient(lambda v: matrix @ v, target, steps=size, tolerance=0.0)

    torch.testing.assert_close(result, torch.linalg.solve(matrix, target), atol=1e-6, rtol=1e-6)


def test_one_conjugate_gradient_step_is_steepest_descent():
    # b'b / b'A b times b: b = (1, 1), A = diag(1, 3): 2 / 4 (1, 1).
    matrix = torch.diag(torch.tensor([1.0, 3.0]))

    result = conjugate_gradient(lambda v: matrix @ v, torch.ones(2), steps=1)

    assert result.tolist() == [0.5, 0.5]


def test_conjugate_gradient_of_0_is_0():
    assert conjugate_gradient(lambda v: v, torch.zeros(3), steps=5).tolist() == [0.0] * 3


def test_fisher_product_of_a_softmax_bandit():
    # F = diag(p) - p p'.
    logits = torch.tensor([0.3, -0.7, 1.1], requires_grad=True)
    kl = kl_divergence(Categorical(logits=logits.detach()), Categorical(logits=logits))
    product = fisher_product(kl, [logits], damping=0.25)

    result = torch.stack([product(row) for row in torch.eye(3)])

    p = logits.detach().softmax(0)
    expected = torch.diag(p) - torch.outer(p, p) + 0.25 * torch.eye(3)
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=1e-5)


def test_natural_gradient_is_invariant_to_parametrization():
    # theta = M phi: the natural step in phi, carried over, is that in theta (no damping).
    torch.manual_seed(0)
    change = torch.randn(3, 3, dtype=torch.float64) + 2 * torch.eye(3)
    start = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)
    gain = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)

    def step(parameter, logits_of):
        logits = logits_of(parameter)
        old = Categorical(logits=logits.detach())
        kl = kl_divergence(old, Categorical(logits=logits))
        slope = torch.autograd.grad((logits.softmax(0) * gain).sum(), parameter, retain_graph=True)[
            0
        ]
        # F is singular along (1, 1, 1), to which the gradient is orthogonal.
        return conjugate_gradient(fisher_product(kl, [parameter], 0.0), slope, steps=2)

    theta = start.clone().requires_grad_()
    phi = torch.linalg.solve(change, start).requires_grad_()
    direct = step(theta, lambda x: x)
    carried = change @ step(phi, lambda x: change @ x)

    # Logits may differ by a constant.
    torch.testing.assert_close(direct - direct.mean(), carried - carried.mean())


def test_assign_inverts_flat():
    tensors = [torch.zeros(2, 2), torch.zeros(3)]

    assign(tensors, torch.arange(7.0))

    assert tensors[0].tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert flat(tensors).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
