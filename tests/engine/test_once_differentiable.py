import pytest
import torch

from rlcomp.engine.once_differentiable import differentiable_once


class Square(torch.autograd.Function):
    """x^2 of the first factor; the second has no gradient."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return x * x + 0 * y

    @staticmethod
    @differentiable_once
    def backward(ctx, gradient):
        assert not torch.is_grad_enabled()
        (x,) = ctx.saved_tensors
        return 2 * x * gradient, None


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @differentiable_once
    def backward(ctx, gradient):
        return 2 * gradient


def test_a_first_derivative_is_what_it_is():
    x = torch.tensor([3.0], requires_grad=True)

    for graph in (False, True):
        (slope,) = torch.autograd.grad(Square.apply(x, torch.ones(1)), x, create_graph=graph)
        assert slope.item() == 6.0
        assert slope.requires_grad == graph
    assert torch.autograd.grad(Double.apply(x), x)[0].item() == 2.0


@pytest.mark.parametrize("of", [lambda x: Square.apply(x, torch.ones(1)), Double.apply])
@pytest.mark.parametrize("outer", [lambda y: y.sum(), lambda y: y.square().sum()])
def test_a_second_one_is_refused_where_the_gradient_that_comes_in_is_a_constant_too(of, outer):
    x = torch.tensor([3.0], requires_grad=True)
    (slope,) = torch.autograd.grad(outer(of(x)), x, create_graph=True)

    with pytest.raises(RuntimeError, match="differentiable once: for second derivatives use engin"):
        slope.square().sum().backward()
