import math

import pytest
import torch
from torchrl.envs.utils import check_env_specs

from components.worlds.track.environment import Track, TrackDriver, curvature
from rlcomp.seed import seeded
from rlcomp.testing import make_batch


def track(num_envs=2, noise=0.0, max_steps=50):
    with seeded(0, "environment"):
        return Track(num_envs=num_envs, max_steps=max_steps, noise=noise)


def test_one_step_by_hand():
    # v dt = 0.2. k(0) = 0.2 sin 1 = .16829; h = .1 + .2 (.5 - .16829) = .16634; y = .9 + .2 sin h.
    state = torch.tensor([[0.9, 0.1, 0.0]])

    after, reward, ended = track(1).advance(state, torch.tensor([[0.5]]))

    offset = 0.9 + 0.2 * torch.tensor(0.16634).sin().item()
    assert after[0].tolist() == pytest.approx([offset, 0.16634, 0.2], abs=1e-5)
    assert float(reward) == pytest.approx(1 - offset, abs=1e-5)
    assert not ended.any()


@pytest.mark.parametrize(
    ("heading", "steering", "after"),
    [
        # k(0) = .16829, v dt = .2: 1.1 + .2 (2 - .16829) = 1.466, -1.1 + .2 (-2 - .16829) = -1.534.
        (1.1, 2.0, 1.2),
        (-1.1, -2.0, -1.2),
        (1.1, 0.6, 1.1 + 0.2 * (0.6 - 0.16829)),  # 1.18634
        (-1.1, 0.0, -1.1 - 0.2 * 0.16829),  # -1.13366
    ],
)
def test_the_heading_is_kept_within_its_bounds(heading, steering, after):
    state = torch.tensor([[0.0, heading, 0.0]])

    moved, _, _ = track(1).advance(state, torch.tensor([[steering]]))

    assert float(moved[0, 1]) == pytest.approx(after, abs=1e-5)
    assert float(moved[0, 0]) == pytest.approx(0.2 * math.sin(after), abs=1e-5)


def test_beyond_half_a_width_it_is_off_the_road_and_drives_on():
    seen = track().observations(torch.tensor([[1.01, 0.0, 0.0], [-0.99, 0.0, 0.0]]))

    assert seen["off_road"].flatten().tolist() == [1.0, 0.0]


def test_noise_has_its_standard_deviation():
    environment, still = track(20_000, noise=0.2), torch.zeros(20_000, 3)

    after, _, _ = environment.advance(still, curvature(still[:, 2:]))

    # Of the heading .2 x .2 = .04, whose estimate has one of .04 / 200.
    assert float(after[:, 1].std()) == pytest.approx(0.04, abs=0.001)


def test_the_expert_stays_exactly_in_the_middle_where_nothing_disturbs():
    driven = track().rollout(50, TrackDriver(), break_when_any_done=False)

    assert float(driven["next", "observation"][..., :2].abs().max()) == 0.0
    assert float(driven["action"].std()) > 0.1  # the road winds


def test_the_expert_keeps_to_the_road_in_noise():
    driven = track(200, noise=0.2, max_steps=800).rollout(800, TrackDriver())

    assert float(driven["next", "off_road"].sum()) == 0.0


def test_the_expert_steers_by_hand():
    # k - y - 2 h = .3 - .5 + .4 = .2; clipped at 2.
    seen = torch.tensor([[0.5, -0.2, 0.3], [-3.0, 0.0, 0.0]])

    action = TrackDriver()(make_batch(observation=seen))["action"]

    assert action.flatten().tolist() == pytest.approx([0.2, 2.0])


def test_torchrl_takes_it_for_an_environment():
    check_env_specs(track())
