"""Conservative Q-learning against its formula, which torchrl's CQLLoss is not."""

import math
from functools import partial

import pytest
import torch
from tensordict.nn import TensorDictModule
from torchrl.modules import ValueOperator
from torchrl.objectives import CQLLoss, SACLoss

from components.environment.control import Pendulum
from components.loss.transitions import ConservativeLoss
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.model.continuous_control import gaussian_actor
from rlcomp.model.control import q_value
from rlcomp.testing import make_batch

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")

ROWS = 5


class Slope(torch.nn.Module):
    """Q(s, a) = k a, whatever is seen; k = 1.5 in every critic."""

    def __init__(self):
        super().__init__()
        self.k = torch.nn.Parameter(torch.tensor(1.5))

    def reset_parameters(self):
        with torch.no_grad():
            self.k.fill_(1.5)

    def forward(self, seen, action):
        return self.k * action + 0 * seen.sum(-1, keepdim=True)


def slope():
    return ValueOperator(Slope(), in_keys=["observation", "action"])


def steps():
    torch.manual_seed(5)
    return make_batch(
        observation=torch.randn(ROWS, 3),
        action=torch.rand(ROWS, 1) * 3 - 1.5,
        next={
            "observation": torch.randn(ROWS, 3),
            "reward": torch.randn(ROWS, 1),
            "done": torch.zeros(ROWS, 1, dtype=torch.bool),
            "terminated": torch.zeros(ROWS, 1, dtype=torch.bool),
        },
    )


def networks(critic):
    torch.manual_seed(0)
    environment = Pendulum(num_envs=1)
    actor = gaussian_actor(environment=environment, num_cells=[8], inputs=["observation"])
    # Actions all over their range: u ~ N(0, 1), log s = 3.5 (tanh x + 1) - 5 = 0.
    last = actor.module[0].module.network[-1]
    torch.nn.init.zeros_(last.weight)
    last.bias.data = torch.tensor([0.0, math.atanh(5 / 3.5 - 1)])
    return {"actor_network": actor, "qvalue_network": critic}


def ours(critic=slope, num_actions=10, weight=1.0, **more):
    return ConservativeLoss(
        objective=partial(SACLoss, loss_function="l2"),
        networks=networks(partial(critic)),
        gamma=0.9,
        period=more.get("period", {}),
        environment=Pendulum(num_envs=1),
        conservative_weight=weight,
        num_actions=num_actions,
    )


def exact(batch):
    """Of Q = 1.5 a on [-2, 2]: log int exp(1.5 a) da = log((e^3 - e^-3) / 1.5), less Q(s, a)."""
    integral = math.log((math.exp(3) - math.exp(-3)) / 1.5)
    return 2 * (integral - 1.5 * float(batch["action"].mean()))


def test_the_gap_is_that_of_the_integral_over_all_actions():
    batch = steps()

    gap = ours(num_actions=4000).conservative_gap(batch)

    # 12,000 actions: the estimate of the integral is known to about 2 %.
    assert float(gap.detach()) == pytest.approx(exact(batch), abs=0.08)


def test_the_loss_of_torchrl_is_another_number():
    batch = steps()
    given = networks(slope())
    foreign = CQLLoss(**given, num_random=4000, loss_function="l2")
    foreign.make_value_estimator(gamma=0.9)
    torch.manual_seed(0)

    gap = float(foreign(batch.clone())["loss_cql"].detach())

    # Of Q = 1.5 a a sum over all actions, as the paper has it, tends to the integral (and the log
    # of their number); the mean of logarithms over three at a time does not, however many.
    of_paper = exact(batch) + 2 * math.log(3 * 4000)
    assert abs(gap - of_paper) > 5
    assert abs(gap - (exact(batch) + 2 * math.log(3))) > 0.3


def test_uniform_actions_fill_the_bounds_and_have_their_density():
    loss = ours(num_actions=500)

    actions, density = loss._proposals(steps())

    assert actions.shape == (1500, ROWS, 1)
    assert float(actions[:500].min()) < -1.9
    assert float(actions[:500].max()) > 1.9
    assert torch.allclose(density[:500], torch.tensor(-math.log(4.0)))
    held = loss.objective
    with held.actor_network_params.to_module(held.actor_network):
        for part, rows in ((slice(500, 1000), steps()), (slice(1000, 1500), steps()["next"])):
            policy = held.actor_network.get_dist(rows.select("observation"))
            torch.testing.assert_close(policy.log_prob(actions[part]), density[part])


def test_it_is_soft_actor_critic_and_the_weighted_gap():
    batch, plain = steps(), ours()
    torch.manual_seed(1)
    values = plain(batch.clone())
    heavy = ours(weight=3.0)
    torch.manual_seed(1)
    with recording() as ledger:
        more = heavy(batch.clone())
    torch.manual_seed(1)
    alone = plain.objective(batch.clone())

    for key in ("loss_actor", "loss_qvalue", "loss_alpha"):
        torch.testing.assert_close(values[key], alone[key])
    torch.testing.assert_close(more["loss_cql"], 3 * values["loss_cql"])
    assert ledger.means()["loss/cql"] == pytest.approx(float(values["loss_cql"].detach()))


def test_its_gradient_is_on_the_critics_only():
    environment = Pendulum(num_envs=1)
    critic = partial(
        q_value,
        environment=environment,
        num_cells=[8],
        inputs=["observation"],
        layer_norm=False,
    )
    loss = ours(critic=critic)

    loss.conservative_gap(steps()).backward()

    held = loss.objective
    assert all(bool(w.grad.any()) for w in held.qvalue_network_params.parameters())
    assert all(w.grad is None for w in held.actor_network_params.parameters())


def test_its_entry_may_have_a_period_as_well():
    loss = ours(period={"loss_cql": 2, "loss_actor": 3})
    with torch.enable_grad():
        seen = [set(loss(steps()).keys()) for _ in range(3)]

    assert ["loss_cql" in keys for keys in seen] == [False, True, False]
    assert ["loss_actor" in keys for keys in seen] == [False, False, True]
    with pytest.raises(ConfigError, match="'loss_cq'"):
        ours(period={"loss_cq": 2})


def test_a_critic_reads_the_observation():
    class Seen(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.k = torch.nn.Parameter(torch.tensor(100.0))

        def reset_parameters(self):
            pass

        def forward(self, seen, action):
            return self.k * seen[..., :1] + 0 * action

    batch = steps()
    loss = ours(critic=lambda: ValueOperator(Seen(), in_keys=["observation", "action"]))

    # Q is 100 times what is seen, whatever is done: log int exp(Q) da - Q = log 4, found without
    # error from uniform actions alone, and within .02 with those of the policy (four seeds).
    assert float(loss.conservative_gap(batch).detach()) == pytest.approx(2 * math.log(4), abs=0.08)
    assert isinstance(loss.objective.actor_network, TensorDictModule)
