import torch

from components.filter import OverlongFilter
from components.loss.reduction import TokenMean
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch():
    mask = torch.tensor([[False, True, True], [False, True, False], [True, False, True]])
    truncated = torch.tensor([False, True, True])
    return make_batch(response_mask=mask, truncated=truncated)


def test_truncated_rows_have_no_response_left_and_the_others_keep_theirs():
    given = batch()
    before = given["response_mask"].clone()

    with recording() as ledger:
        result = OverlongFilter()(given.copy())

    assert torch.equal(result["response_mask"][0], before[0])
    assert not bool(result["response_mask"][1:].any())
    assert torch.equal(given["response_mask"], before)
    assert ledger.means()["filter/overlong_fraction"] == 2 / 3


def test_truncated_rows_leave_the_denominator():
    # 2 tokens are left of 5: each has a share of 1/2 in the loss.
    weight = TokenMean()(OverlongFilter()(batch()))["loss_weight"]

    assert weight.sum().item() == 1.0
    assert weight[0].tolist() == [0.0, 0.5, 0.5]
