import inspect

import pytest
import torch
from tensordict import TensorDict

from components.loss.entropy import EntropyLoss
from components.loss.reduction import SequenceMean, TokenMean
from rlcomp.testing import make_batch


def batch() -> TensorDict:
    entropy = torch.tensor([[1.0, 2.0, 7.0], [0.6, 7.0, 7.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    return make_batch(response_mask=mask, entropy=entropy)


@pytest.mark.parametrize(
    ("reduction", "mean", "weights"),
    [
        (TokenMean(), 1.2, ((1 / 3, 1 / 3, 0), (1 / 3, 0, 0))),  # (1 + 2 + 0.6) / 3
        (SequenceMean(), 1.05, ((1 / 4, 1 / 4, 0), (1 / 2, 0, 0))),  # (1.5 + 0.6) / 2
    ],
)
def test_entropy_is_paid_for(reduction, mean, weights):
    rows = batch()

    value = EntropyLoss(entropy_coef=0.1, reduction=reduction)(rows)["loss"]
    value.backward()

    assert value.item() == pytest.approx(-0.1 * mean)
    torch.testing.assert_close(rows["entropy"].grad, -0.1 * torch.tensor(weights))


@pytest.mark.parametrize(("part", "numbers"), [(EntropyLoss, {"entropy_coef": 0.01})])
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
