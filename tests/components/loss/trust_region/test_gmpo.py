from math import exp, log

import pytest
import torch

from components.loss.trust_region.clip import GMPO
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")


def batch():
    """Responses of 3, 2, 1 and 2 tokens, one empty; the fourth has A = 0."""
    mask = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0] * 4])
    mask = mask.bool()
    rows = [[0.9, -0.2, NAN, -0.7], [NAN, -0.9, 0.3, NAN], [0.9, NAN, NAN, NAN]]
    log_ratio = torch.tensor([*rows, [0.9, -0.9, NAN, NAN], [NAN] * 4])
    advantage = torch.tensor([2.0, -1.0, 0.5, 0.0, NAN])[:, None].expand(5, 4)
    return make_batch(
        response_mask=mask,
        ratio=log_ratio.exp().requires_grad_(),
        advantage=torch.where(mask, advantage, NAN),
    )


def test_it_is_the_geometric_mean_of_ratios_clipped_in_log_space():
    rows = batch()

    surrogate = GMPO(clip_low=0.4, clip_high=0.5)(rows)["surrogate"]

    # One value at all tokens of a response:
    # 2 exp((0.5 - 0.2 - 0.7) / 3), -exp((-0.4 + 0.3) / 2), 0.5 exp(0.5), 0, nothing
    want = [2 * exp(-0.4 / 3), -exp(-0.05), 0.5 * exp(0.5), 0.0, 0.0]
    for row, mask, value in zip(surrogate, rows["response_mask"], want, strict=True):
        assert row[mask].tolist() == pytest.approx([value] * int(mask.sum()))


def test_a_clipped_token_has_no_gradient_and_leaves_the_others_theirs():
    rows = batch()

    surrogate = GMPO(clip_low=0.4, clip_high=0.5)(rows)["surrogate"]
    means = [surrogate[i][rows["response_mask"][i]].mean() for i in range(3)]
    torch.stack(means).sum().backward()

    # The mean has l / n for log r, and log r = log(ratio): l / (n r).
    a, b = 2 * exp(-0.4 / 3), -exp(-0.05)
    want = torch.zeros(5, 4)
    want[0, 1], want[0, 3] = a / 3 / exp(-0.2), a / 3 / exp(-0.7)
    want[1, 2] = b / 2 / exp(0.3)
    torch.testing.assert_close(rows["ratio"].grad, want)


def test_clipped_tokens_are_counted_on_their_side():
    with recording() as ledger:
        GMPO(clip_low=0.4, clip_high=0.5)(batch())

    # Of 8 tokens 0.9 twice with A > 0, -0.9 once with A < 0.
    assert ledger.means() == pytest.approx(
        {"trust_region/clip_fraction_low": 1 / 8, "trust_region/clip_fraction_high": 2 / 8}
    )


def test_a_bound_is_a_log_not_a_distance_from_1():
    rows = batch()
    rows["ratio"] = torch.full((5, 4), 1.45)

    with recording() as ledger:
        GMPO(clip_high=0.4)(rows)

    assert log(1.45) < 0.4 < 1.45 - 1
    assert ledger.means()["trust_region/clip_fraction_high"] == 0
