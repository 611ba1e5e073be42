import pytest
import torch
from tensordict import TensorDict

from components.loss.trust_region.clip import Clip
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")


def batch() -> TensorDict:
    return make_batch(
        response_mask=[[True, True, True, True, False]],
        ratio=torch.tensor([[2.0, 2.0, 0.5, 0.5, NAN]], requires_grad=True),
        advantage=[[1.0, -1.0, 1.0, -1.0, NAN]],
    )


def test_the_pessimistic_of_both_is_taken():
    # ceiling 1.28, floor 0.8: min(2, 1.28), min(-2, -1.28), min(0.5, 0.8), min(-0.5, -0.8)
    surrogate = Clip(clip_low=0.2, clip_high=0.28)(batch())["surrogate"]

    torch.testing.assert_close(surrogate, torch.tensor([[1.28, -2.0, 0.5, -0.8, 0.0]]))


def test_nan_outside_the_mask_reaches_no_gradient():
    rows = batch()

    Clip(clip_low=0.2, clip_high=0.28)(rows)["surrogate"].sum().backward()

    assert rows["ratio"].grad.tolist() == [[0.0, -1.0, 1.0, 0.0, 0.0]]


def test_tokens_without_gradient_are_counted_on_either_side():
    with recording() as ledger:
        Clip(clip_low=0.2, clip_high=0.28)(batch())

    assert ledger.means() == {
        "trust_region/clip_fraction_high": 0.25,
        "trust_region/clip_fraction_low": 0.25,
    }


def test_a_floor_below_0_is_refused():
    with pytest.raises(ConfigError, match=r"clip_low is 1\.0: must be less than 1"):
        Clip(clip_low=1.0, clip_high=0.2)
