import pytest
import torch

from components.feedback import PassRate
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch


class Told:
    """A sampler that keeps what it is told."""

    def __init__(self):
        self.heard = []

    def tell(self, pass_rates):
        self.heard.append(dict(pass_rates))


def batch(examples, correct, valid):
    return make_batch(
        example_id=examples,
        correct=correct,
        reward_valid=valid,
    )


def test_the_sampler_hears_how_often_each_example_was_answered_right():
    sampler = Told()
    # 5: one of two valid answers. 9: right. 7: nothing could be judged.
    given = batch(
        [5, 9, 5, 5, 7], [True, True, False, False, False], [True, True, True, False, False]
    )

    result = PassRate(sampler=sampler)(given)

    assert sampler.heard == [{5: 0.5, 9: 1.0}]
    assert result is given


def test_a_sampler_that_does_not_listen_is_refused():
    with pytest.raises(ConfigError, match="takes no pass rates; choose sampler@prompts=curriculum"):
        PassRate(sampler=torch.nn.Identity())
