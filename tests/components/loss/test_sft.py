import torch

from components.loss.imitation import SFTLoss
from components.loss.reduction import TokenMean
from rlcomp.testing import make_batch


def test_it_is_the_mean_negative_log_likelihood_of_the_response():
    rows = make_batch(
        response_mask=[[False, True, True], [False, True, False]],
        log_probs=torch.tensor([[9.0, -1.0, -2.0], [9.0, -6.0, 9.0]], requires_grad=True),
    )

    loss = SFTLoss(reduction=TokenMean())(rows)["loss"]
    loss.backward()

    assert loss.item() == 3.0  # (1 + 2 + 6) / 3
    third = -1 / 3
    torch.testing.assert_close(
        rows["log_probs"].grad, torch.tensor([[0, third, third], [0, third, 0]])
    )
