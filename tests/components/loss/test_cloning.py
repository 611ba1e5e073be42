import math

import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Normal
from torchrl.modules import ProbabilisticActor
from torchrl.objectives import BCLoss

from components.environment.control import Pendulum
from components.loss.imitation import CloningLikelihood, CloningSquaredError
from rlcomp.model.continuous_control import gaussian_actor
from rlcomp.testing import make_batch


def linear(weight):
    """a = w s, two numbers."""
    layer = nn.Linear(1, 2, bias=False)
    layer.weight.data = torch.tensor(weight).view(2, 1)
    return TensorDictModule(layer, in_keys=["observation"], out_keys=["action"])


def steps(seen, right):
    return make_batch(observation=seen, expert_action=right)


def test_squared_error_by_hand():
    # s = 1: a = (1, 2) against (0, 0): 1 + 4; s = 2: (2, 4) against (2, 1): 0 + 9; mean 7.
    batch = steps([[1.0], [2.0]], [[0.0, 0.0], [2.0, 1.0]])

    loss = CloningSquaredError(policy=linear([1.0, 2.0]))(batch)["loss_cloning"]
    assert float(loss.detach()) == 7.0


def test_its_gradient_by_hand():
    # d/dw of mean_s (w s - a)^2: 2 s (w s - a): (2 (1 - 0) + 4 (2 - 2)) / 2 = 1 for the first.
    policy = linear([1.0, 2.0])
    batch = steps([[1.0], [2.0]], [[0.0, 0.0], [2.0, 1.0]])

    CloningSquaredError(policy=policy)(batch)["loss_cloning"].backward()

    # The second: (2 (2 - 0) + 4 (4 - 1)) / 2 = 8.
    assert policy.module.weight.grad.flatten().tolist() == [1.0, 8.0]


class Still(nn.Module):
    """Mean 0 and scale 1 of two numbers, whatever is seen."""

    def __init__(self):
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(2))

    def forward(self, seen):
        mean = self.mean.expand(len(seen), 2)
        return mean, torch.ones_like(mean)


def gaussian():
    network = TensorDictModule(Still(), in_keys=["observation"], out_keys=["loc", "scale"])
    return ProbabilisticActor(network, in_keys=["loc", "scale"], distribution_class=Normal)


def test_the_log_prob_of_an_action_is_the_sum_over_its_numbers():
    # a* = (1, 2), N(0, 1): log(2 pi) + (1 + 4) / 2.
    batch = steps([[0.0]], [[1.0, 2.0]])

    value = float(CloningLikelihood(policy=gaussian())(batch)["loss_cloning"].detach())

    assert value == pytest.approx(math.log(2 * math.pi) + 2.5)


@pytest.mark.filterwarnings("ignore:The name target_actor")
def test_torchrls_own_loss_is_a_mean_over_the_numbers_of_an_action():
    # Why it is not used: half of what stands above.
    policy, right = gaussian(), torch.tensor([[1.0, 2.0]])
    batch = make_batch(observation=torch.zeros(1, 1), action=right)

    value = float(BCLoss(actor_network=policy)(batch)["loss_bc"].detach())

    assert value == pytest.approx((math.log(2 * math.pi) + 2.5) / 2)


def test_a_squashed_gaussian_by_hand():
    actor = gaussian_actor(environment=Pendulum(num_envs=1), num_cells=[4], inputs=["observation"])
    seen, right = torch.randn(5, 3), torch.rand(5, 1) * 3 - 1.5
    batch = make_batch(observation=seen, expert_action=right)

    value = CloningLikelihood(policy=actor)(batch)["loss_cloning"].detach()

    told = actor.module[0](make_batch(observation=seen))
    u = (right / 2).atanh()
    normal = Normal(told["loc"], told["scale"]).log_prob(u)
    expected = -(normal - (2 * (1 - u.tanh() ** 2)).log()).mean().detach()
    torch.testing.assert_close(value, expected, atol=1e-4, rtol=1e-4)
