import pytest
import torch

from components.loss.trust_region.clip import DualClip
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")


def batch():
    return make_batch(
        response_mask=[[True, True, True, True, False]],
        ratio=torch.tensor([[5.0, 2.0, 5.0, 0.5, NAN]], requires_grad=True),
        advantage=[[-1.0, -1.0, 1.0, -1.0, NAN]],
    )


def test_a_negative_token_counts_at_most_three_times():
    rows = batch()

    surrogate = DualClip()(rows)["surrogate"]
    surrogate.sum().backward()

    # max(-5, -3), -2, min(5, 1.2), min(-0.5, -0.8)
    torch.testing.assert_close(surrogate.detach(), torch.tensor([[-3.0, -2.0, 1.2, -0.8, 0.0]]))
    assert rows["ratio"].grad.tolist() == [[0, -1, 0, 0, 0]]


def test_tokens_beyond_each_bound_are_counted():
    # Of 10 tokens: A < 0 below 0.8 once, A > 0 above 1.2 twice, A < 0 above 3 four times; A = 0
    # is none of them.
    ratio = [0.5, 2.0, 9.0, 4.0, 5.0, 6.0, 7.0, 0.5, 2.0, 9.0]
    sign = [-1, 1, 0.5, -1, -1, -1, -1, 1, -1, 0]
    rows = make_batch(
        response_mask=[[True] * 6 + [False] * 2, [True] * 4 + [False] * 4],
        ratio=[[*ratio[:6], NAN, NAN], [*ratio[6:], NAN, NAN, NAN, NAN]],
        advantage=[[*sign[:6], NAN, NAN], [*sign[6:], NAN, NAN, NAN, NAN]],
    )

    with recording() as ledger:
        DualClip()(rows)

    assert ledger.means() == pytest.approx(
        {
            "trust_region/clip_fraction_low": 0.1,
            "trust_region/clip_fraction_high": 0.2,
            "trust_region/clip_fraction_dual": 0.4,
        }
    )


def test_a_ratio_at_a_bound_is_not_cut():
    # A < 0 at 0.75 and at 3, A > 0 at 1.25: each surrogate is still r A.
    rows = batch()
    rows["ratio"] = torch.tensor([[0.75, 3.0, 1.25, 1.0, NAN]])

    with recording() as ledger:
        DualClip(clip_low=0.25, clip_high=0.25)(rows)

    assert not any(ledger.means().values())
    assert rows["surrogate"].tolist() == [[-0.75, -3.0, 1.25, -1.0, 0.0]]


def test_a_cap_below_the_ceiling_cuts_negative_advantages_only():
    rows = batch()

    surrogate = DualClip(clip_high=0.28, clip_dual=1.1)(rows)["surrogate"]
    surrogate.sum().backward()

    # max(-5, -1.1), max(-2, -1.1), min(5, 1.28), max(min(-0.5, -0.8), -1.1)
    torch.testing.assert_close(surrogate.detach(), torch.tensor([[-1.1, -1.1, 1.28, -0.8, 0.0]]))
    assert rows["ratio"].grad.tolist() == [[0, 0, 0, 0, 0]]


def test_a_cap_of_1_is_refused():
    with pytest.raises(ConfigError, match=r"clip_dual is 1.0: must be greater than 1"):
        DualClip(clip_dual=1.0)


def test_a_wider_clip_is_one_number_not_a_dead_one():
    # One name per bound: whatever is set is used.
    surrogate = DualClip(clip_low=0.05, clip_high=0.05)(batch())["surrogate"]

    torch.testing.assert_close(surrogate.detach()[0, 2:4], torch.tensor([1.05, -0.95]))
