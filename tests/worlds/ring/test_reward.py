import math

import pytest
import torch

from components.worlds.ring.gaussians import ModeDistance, RingOfGaussians
from rlcomp.errors import ConfigError
from rlcomp.testing import check_component, make_batch

RING = RingOfGaussians(num_modes=4, radius=2.0, std=0.1)  # (2, 0), (0, 2), (-2, 0), (0, -2)


def test_the_reward_is_minus_the_distance_to_the_mode():
    points = torch.tensor([[3.0, 4.0], [0.0, 2.0], [2.5, 2.0], [math.nan, 0.0]])

    batch = ModeDistance(distribution=RING, mode=1)(make_batch(sample=points))

    # From (0, 2): sqrt(9 + 4), 0, 2.5.
    torch.testing.assert_close(batch["reward"][:3], torch.tensor([-math.sqrt(13), 0.0, -2.5]))
    assert batch["reward_valid"].tolist() == [True, True, True, False]
    # (3, 4) is nearer to (0, 2), (2.5, 2) to (2, 0).
    assert batch["correct"].tolist()[:3] == [True, True, False]
    assert float(batch["rewards", "mode"][2]) == -2.5


def test_a_mode_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match=r"mode is 4, but the distribution has 4 modes.*0 to 3"):
        ModeDistance(distribution=RING, mode=4)
    assert ModeDistance(distribution=RING, mode=3).mode == 3


def test_it_keeps_the_contract():
    check_component(ModeDistance(distribution=RING, mode=0), make_batch(sample=RING.centres))
