import torch
from tensordict import TensorDict

from components.environment.control import Pendulum
from components.expert import ExpertLabel
from components.worlds.track.environment import TrackDriver
from rlcomp.model.continuous_control import gaussian_actor


def batch(width=3):
    shape = (2, 4)
    return TensorDict(
        {"observation": torch.randn(*shape, width), "action": torch.zeros(*shape, 1)},
        batch_size=shape,
    )


def test_the_experts_action_stands_beside_what_was_done():
    seen = batch()

    labelled = ExpertLabel(policy=TrackDriver())(seen.clone())

    offset, heading, curvature = seen["observation"].split(1, dim=-1)
    expected = (curvature - offset - 2 * heading).clamp(-2, 2)
    torch.testing.assert_close(labelled["expert_action"], expected)
    assert torch.equal(labelled["action"], seen["action"])


def test_a_trained_expert_says_its_likeliest_action():
    actor = gaussian_actor(environment=Pendulum(num_envs=1), num_cells=[4], inputs=["observation"])
    seen = batch()

    labelled = ExpertLabel(policy=actor)(seen.clone())

    mean = actor.module[0](seen.select("observation"))["loc"]
    torch.testing.assert_close(labelled["expert_action"], 2 * mean.tanh())
