import pytest
import torch
from tensordict import TensorDict

from components.evaluator.flow import FlowEvaluator, total_variation
from components.worlds.ring.gaussians import ModeDistance, RingOfGaussians
from rlcomp.metrics import recording
from rlcomp.model.flow_policy import FlowPolicy

RING = RingOfGaussians(num_modes=2, radius=2.0, std=0.1)  # (2, 0), (-2, 0)


class ToTheRight(torch.nn.Module):
    """A velocity that leads every point to (2, 0) at time 0."""

    def forward(self, seen):
        point, time = seen[:, :2], seen[:, 2:]
        return (point - torch.tensor([2.0, 0.0])) / time


def evaluated(mode):
    flow = FlowPolicy(velocity=ToTheRight(), size=2, num_steps=5, noise_level=0.7)
    evaluator = FlowEvaluator(
        policy=flow,
        reward=ModeDistance(distribution=RING, mode=mode),
        distribution=RING,
        num_samples=50,
        num_steps=4,
    )
    with recording() as ledger:
        evaluator(TensorDict({}, batch_size=[]))
    return ledger.means()


@pytest.mark.parametrize(("mode", "share", "reward"), [(0, 1.0, 0.0), (1, 0.0, -4.0)])
def test_samples_of_a_flow_to_one_mode_by_hand(mode, share, reward):
    result = evaluated(mode)

    # The last Euler step, dt = -t, ends in (2, 0): 4 away from (-2, 0).
    assert result["evaluation/reward"] == pytest.approx(reward, abs=1e-5)
    assert result["evaluation/in_mode"] == share
    assert result["evaluation/sde_in_mode"] == share
    assert result["evaluation/sde_shift"] == 0.0
    assert set(result) == {
        *("evaluation/reward", "evaluation/in_mode"),
        *("evaluation/sde_in_mode", "evaluation/sde_shift"),
    }


def test_total_variation_by_hand():
    centres = torch.tensor([[0.0], [1.0], [2.0]])
    one = torch.tensor([[0.0], [0.1], [1.0], [2.0]])  # 1/2, 1/4, 1/4
    other = torch.tensor([[1.0], [1.1]])  # 0, 1, 0

    assert total_variation(one, other, centres) == pytest.approx(0.75)
    assert total_variation(one, one, centres) == 0.0


def test_every_evaluation_draws_the_same_noise():
    assert evaluated(0) == evaluated(0)
