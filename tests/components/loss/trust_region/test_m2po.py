import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.loss.trust_region.divergence import M2PO
from rlcomp.functional.clip_bounds import second_moment_outliers
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")


def batch():
    """Log ratios 0.2 0.6 -0.9 with A = 0.5, -0.1 -1 0.9 -0.3 with A = -1, +-2 with A = 0."""
    log_ratio = torch.tensor(
        [[0.2, 0.6, -0.9, NAN], [-0.1, -1.0, 0.9, -0.3], [2.0, NAN, -2.0, NAN]]
    )
    mask = ~log_ratio.isnan()
    advantage = torch.tensor([0.5, -1.0, 0.0])[:, None].expand(3, 4)
    return make_batch(
        response_mask=mask,
        ratio=log_ratio.exp().requires_grad_(),
        advantage=torch.where(mask, advantage, NAN),
    )


# T, where A and log r have the same sign, holds the squares 0.04 0.36 | 0.01 1 0.09, mean 0.3.
# Without 1: mean 0.125; without 0.36 as well: 0.14 / 3 = 0.0467; without 0.09 as well: 0.025.


@pytest.mark.parametrize(
    ("tau", "gone"),
    [
        (0.31, []),
        (0.2, [(1, 1)]),
        (0.05, [(1, 1), (0, 1)]),
        (0.04, [(1, 1), (0, 1), (1, 3)]),
        (0.001, [(1, 1), (0, 1), (1, 3), (0, 0), (1, 0)]),
    ],
)
def test_the_largest_leave_until_the_mean_of_the_rest_is_within_the_bound(tau, gone):
    selected = M2PO(tau=tau).prepare(batch())["selected"]

    assert sorted(map(tuple, selected.nonzero().tolist())) == sorted(gone)


def test_the_remaining_tokens_are_not_clipped():
    rows = batch()

    surrogate = M2PO(tau=0.05)(rows)["surrogate"]
    surrogate.sum().backward()

    # The ratios that go against the advantage, exp(-0.9) and exp(0.9), stay whatever their size.
    want = torch.tensor([[0.5, 0.0, 0.5, 0.0], [-1.0, 0.0, -1.0, -1.0], [0.0] * 4])
    torch.testing.assert_close(rows["ratio"].grad, want)
    ratio = torch.where(rows["response_mask"], rows["ratio"].detach(), 0.0)
    torch.testing.assert_close(surrogate.detach(), want * ratio)


def test_the_share_that_leaves_and_the_second_moments_are_recorded():
    with recording() as ledger:
        M2PO(tau=0.05)(batch())

    assert ledger.means() == pytest.approx(
        {
            "trust_region/selected_fraction": 2 / 9,
            "trust_region/second_moment": 1.5 / 5,
            "trust_region/second_moment_kept": 0.14 / 3,
        }
    )


def test_where_nothing_can_leave_nothing_does():
    rows = batch()
    rows["ratio"] = torch.ones(3, 4)

    assert not M2PO(tau=1e-9).prepare(rows)["selected"].any()


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=8), st.floats(1e-3, 2))
def test_no_smaller_set_would_do(values, bound):
    # Values apart by more than the rounding within which they leave together.
    log_ratio = torch.tensor([[v + 0.01 * n for n, v in enumerate(sorted(values))]]).double()
    square = log_ratio.square()[0]

    gone = second_moment_outliers(log_ratio, torch.ones_like(log_ratio).bool(), bound)[0]

    kept = square[~gone].sort().values
    assert not len(kept) or kept.mean() <= bound + 1e-9
    if gone.any():
        back = torch.cat([kept, square[gone].min()[None]])
        assert back.mean() > bound - 1e-4
