import pytest
import torch

from rlcomp.errors import ConfigError
from rlcomp.model.optimizer import check_dense, match_strides


def with_gaps():
    return torch.nn.Parameter(torch.zeros(4, 2)[:, 0])


def test_a_parameter_with_gaps_is_refused_of_a_fused_optimiser_only():
    check_dense(torch.optim.AdamW([with_gaps()], fused=False))
    check_dense(torch.optim.SGD([with_gaps()], lr=0.1))

    with pytest.raises(ConfigError, match=r"shape \[4\] is a view with strides \[2\].*fused=false"):
        check_dense(
            torch.optim.AdamW([torch.nn.Parameter(torch.zeros(3)), with_gaps()], fused=True)
        )


def test_a_transposed_parameter_has_no_gaps():
    check_dense(torch.optim.AdamW([torch.nn.Parameter(torch.zeros(3, 2).t())], fused=True))


def test_gradients_get_the_strides_of_their_parameters():
    plain, turned, none = (torch.nn.Parameter(torch.zeros(3, 2).t()) for _ in range(3))
    plain.grad = plain.detach().clone()
    kept = plain.grad
    turned.grad = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    match_strides([plain, none, turned])

    assert plain.grad is kept
    assert none.grad is None
    assert turned.grad.stride() == (1, 2)
    assert turned.grad.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
