import math

import pytest
import torch

from rlcomp.engine.rotary import rotate


def rotation(angles):
    """For pairs of features, the same angle in both halves."""
    both = torch.tensor(angles, dtype=torch.float64).repeat(1, 2)[:, None]
    return torch.stack([both.cos(), both.sin()])


def test_a_pair_is_turned_by_its_angle():
    # (1, 0) turned by 60 degrees is (1/2, sqrt(3)/2); features 0 and 2 are a pair, 1 and 3 too.
    x = torch.tensor([[[1.0, 0.0, 0.0, 2.0]]], dtype=torch.float64)

    turned = rotate(x, rotation([[math.pi / 3, 0.0]]))

    expected = torch.tensor([[[0.5, 0.0, math.sqrt(3) / 2, 2.0]]], dtype=torch.float64)
    torch.testing.assert_close(turned, expected)


@pytest.mark.parametrize("graph", [True, False])
def test_dot_products_depend_on_the_difference_of_angles_alone(graph):
    x, y = torch.randn(2, 1, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.set_grad_enabled(graph):
        near = rotate(x, rotation([[0.3, 0.7]])) * rotate(y, rotation([[0.1, 0.2]]))
        far = rotate(x, rotation([[1.3, 2.7]])) * rotate(y, rotation([[1.1, 2.2]]))

    torch.testing.assert_close(near.sum(-1), far.sum(-1))


def test_the_gradient_is_that_of_finite_differences():
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    angles = rotation([[0.3, 0.7], [2.0, -1.0]])

    assert torch.autograd.gradcheck(lambda given: rotate(given, angles), x.requires_grad_())
