import pytest
import torch
from tensordict import TensorDict

from components.loss.trust_region.dual_clip import DualClip
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording

NAN = float("nan")


def batch():
    return TensorDict(
        {
            "response_mask": torch.tensor([[True, True, True, True, False]]),
            "ratio": torch.tensor([[5.0, 2.0, 5.0, 0.5, NAN]], requires_grad=True),
            "advantage": torch.tensor([[-1.0, -1.0, 1.0, -1.0, NAN]]),
        },
        batch_size=[1],
    )


def test_a_negative_token_counts_at_most_three_times():
    rows = batch()

    surrogate = DualClip()(rows)["surrogate"]
    surrogate.sum().backward()

    # max(-5, -3), -2, min(5, 1.2), min(-0.5, -0.8)
    torch.testing.assert_close(surrogate.detach(), torch.tensor([[-3.0, -2.0, 1.2, -0.8, 0.0]]))
    assert rows["ratio"].grad.tolist() == [[0, -1, 0, 0, 0]]


def test_tokens_beyond_each_bound_are_counted():
    with recording() as ledger:
        DualClip()(batch())

    assert ledger.means() == {
        "trust_region/clip_fraction_low": 0.25,
        "trust_region/clip_fraction_high": 0.25,
        "trust_region/clip_fraction_dual": 0.25,
    }


def test_a_cap_below_the_ceiling_is_refused():
    with pytest.raises(ConfigError, match=r"clip_dual is 1.2, but .* set clip_dual above it"):
        DualClip(clip_high=0.28, clip_dual=1.2)


def test_a_wider_clip_is_one_number_not_a_dead_one():
    # One name per bound: whatever is set is used.
    surrogate = DualClip(clip_low=0.05, clip_high=0.05)(batch())["surrogate"]

    torch.testing.assert_close(surrogate.detach()[0, 2:4], torch.tensor([1.05, -0.95]))
