"""torchrl's losses of control against the formulas of their papers, on random steps."""

import pytest
import torch
from torch.nn import functional
from torchrl.objectives import DQNLoss, IQLLoss, SACLoss, TD3BCLoss, TD3Loss

from components.environment.control import CartPole, Pendulum
from components.loss.transitions import TransitionLoss
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.model.continuous_control import (
    bounded_actions,
    deterministic_actor,
    gaussian_actor,
)
from rlcomp.model.control import action_values, q_value
from rlcomp.model.control import critic as state_value
from rlcomp.testing import make_batch

# There is no target update beside these.
pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")

ROWS, GAMMA = 16, 0.9


def steps(action):
    """Random steps; some are terminated, some truncated."""
    flag = torch.rand(ROWS, 1) < 0.5
    cut = torch.rand(ROWS, 1) < 0.5
    after = {
        "observation": torch.randn(ROWS, 3 if action.is_floating_point() else 4),
        "reward": torch.randn(ROWS, 1),
        "terminated": flag,
        "done": flag | cut,
    }
    seen = torch.randn_like(after["observation"])
    return make_batch(observation=seen, action=action, next=after)


def relu_net(params, x):
    """Two hidden ReLU layers by hand; params may hold a stack of networks."""
    for layer in ("0", "2", "4"):
        x = functional.linear(x, params[layer, "weight"], params[layer, "bias"])
        x = x if layer == "4" else x.relu()
    return x


def both(params, x):
    """Q_1 and Q_2, ``[2, N]``."""
    stack = params["module"]
    return torch.stack([relu_net(stack[i], x)[:, 0] for i in range(2)])


@pytest.fixture(autouse=True)
def drawn():
    torch.manual_seed(3)


def sac(**more):
    environment = Pendulum(num_envs=1)
    actor = gaussian_actor(environment=environment, num_cells=[8, 8], inputs=["observation"])
    return TransitionLoss(
        objective=lambda **nets: SACLoss(**nets, loss_function="l2", alpha_init=0.3, **more),
        networks={"actor_network": actor, "qvalue_network": critic(environment)},
        gamma=GAMMA,
        period={},
    )


def critic(environment):
    return q_value(
        environment=environment, num_cells=[8, 8], inputs=["observation"], layer_norm=False
    )


def squashed(params, seen, noise):
    """Action in [-2, 2] and its log-prob: a = 2 tanh u, u = m + s n."""
    mean, raw = relu_net(params["module", "0", "module", "network"], seen).chunk(2, -1)
    scale = (-5 + 3.5 * (raw.tanh() + 1)).exp()
    u = mean + scale * noise
    normal = torch.distributions.Normal(mean, scale).log_prob(u)
    # |da / du| = 2 (1 - tanh^2 u)
    return 2 * u.tanh(), (normal - (2 * (1 - u.tanh() ** 2)).log()).sum(-1)


def test_soft_actor_critic_is_the_formula_of_the_paper():
    loss = sac()
    batch = steps(torch.rand(ROWS, 1) * 4 - 2)
    torch.manual_seed(11)
    with recording() as ledger:
        values = loss(batch)

    torch.manual_seed(11)
    first, second = torch.randn(ROWS, 1), torch.randn(ROWS, 1)  # a' of the target, then a~
    held, alpha = loss.objective, 0.3
    seen, after = batch["observation"], batch["next", "observation"]
    with torch.no_grad():
        action, log_prob = squashed(held.actor_network_params, after, first)
        ahead = both(held.target_qvalue_network_params, torch.cat([after, action], -1)).amin(0)
        lives = 1 - batch["next", "terminated"][:, 0].float()
        target = batch["next", "reward"][:, 0] + GAMMA * lives * (ahead - alpha * log_prob)
    now = both(held.qvalue_network_params, torch.cat([seen, batch["action"]], -1))
    action, log_prob = squashed(held.actor_network_params, seen, second)
    value = both(held.qvalue_network_params, torch.cat([seen, action], -1)).amin(0)
    expected = {
        "loss_qvalue": ((now - target) ** 2).sum(0).mean(),
        "loss_actor": (alpha * log_prob - value).mean(),
        # H = -1, one number an action
        "loss_alpha": (-held.log_alpha * (log_prob.detach() - 1)).mean(),
    }
    for key, number in expected.items():
        torch.testing.assert_close(values[key].squeeze(), number.squeeze(), atol=1e-5, rtol=1e-5)
        told = ledger.means()[key.replace("loss_", "loss/")]
        assert told == pytest.approx(float(number.detach()), rel=1e-4)


def test_the_policys_loss_leaves_nothing_on_the_critics():
    loss = sac()

    loss(steps(torch.zeros(ROWS, 1)))["loss_actor"].backward()

    critics = loss.objective.qvalue_network_params.values(True, True)
    assert all(weight.grad is None or not weight.grad.any() for weight in critics)
    actor = loss.objective.actor_network_params.values(True, True)
    assert all(bool(weight.grad.any()) for weight in actor)


def test_a_cut_episode_still_has_a_future_a_terminated_one_has_none():
    loss, batch = sac(), steps(torch.zeros(ROWS, 1))
    batch["next", "done"][:] = True
    losses = {}
    for ended in (False, True):
        batch["next", "terminated"][:] = ended
        torch.manual_seed(0)
        losses[ended] = float(loss(batch)["loss_qvalue"].detach())
    held = loss.objective
    now = both(held.qvalue_network_params, torch.cat([batch["observation"], batch["action"]], -1))

    alone = ((now - batch["next", "reward"][:, 0]) ** 2).sum(0).mean()
    assert losses[True] == pytest.approx(float(alone.detach()), rel=1e-5)
    assert losses[False] != pytest.approx(losses[True], rel=1e-3)


def test_twin_delayed_policy_gradient_is_the_formula_of_the_paper():
    environment = Pendulum(num_envs=1)
    actor = deterministic_actor(
        environment=environment, num_cells=[8, 8], inputs=["observation"], activation="relu"
    )
    loss = TransitionLoss(
        objective=lambda **nets: TD3Loss(
            **nets,
            loss_function="l2",
            policy_noise=0.4,
            noise_clip=0.5,
            action_spec=bounded_actions(environment),
        ),
        networks={"actor_network": actor, "qvalue_network": critic(environment)},
        gamma=GAMMA,
        period={},
    )
    batch = steps(torch.rand(ROWS, 1) * 4 - 2)
    torch.manual_seed(11)
    values = loss(batch)

    torch.manual_seed(11)
    noise = (0.4 * torch.randn(ROWS, 1)).clamp(-0.5, 0.5)
    held = loss.objective
    seen, after = batch["observation"], batch["next", "observation"]
    with torch.no_grad():
        action = 2 * relu_net(held.target_actor_network_params["module", "network"], after).tanh()
        action = (action + noise).clamp(-2, 2)
        ahead = both(held.target_qvalue_network_params, torch.cat([after, action], -1)).amin(0)
        lives = 1 - batch["next", "terminated"][:, 0].float()
        target = batch["next", "reward"][:, 0] + GAMMA * lives * ahead
    now = both(held.qvalue_network_params, torch.cat([seen, batch["action"]], -1))
    action = 2 * relu_net(held.actor_network_params["module", "network"], seen).tanh()
    first = both(held.qvalue_network_params, torch.cat([seen, action], -1))[0]
    torch.testing.assert_close(values["loss_qvalue"], ((now - target) ** 2).sum(0).mean())
    torch.testing.assert_close(values["loss_actor"], -first.mean())


def test_implicit_q_learning_is_the_formula_of_the_paper():
    environment, tau, beta = Pendulum(num_envs=1), 0.7, 3.0
    actor = gaussian_actor(environment=environment, num_cells=[8, 8], inputs=["observation"])
    value = state_value(environment=environment, num_cells=[8])
    loss = TransitionLoss(
        objective=lambda **nets: IQLLoss(
            **nets, loss_function="l2", expectile=tau, temperature=beta
        ),
        networks={
            "actor_network": actor,
            "qvalue_network": critic(environment),
            "value_network": value,
        },
        gamma=GAMMA,
        period={},
    )
    held = loss.objective
    for weight in held.target_qvalue_network_params.values(True, True):
        weight.data += 0.2 * torch.randn_like(weight)
    batch = steps(torch.rand(ROWS, 1) * 3.8 - 1.9)
    values = loss(batch.clone())

    def worth(seen):
        return value.module(seen)[:, 0]

    seen, after, done = batch["observation"], batch["next", "observation"], batch["action"]
    lives = 1 - batch["next", "terminated"][:, 0].float()
    target = batch["next", "reward"][:, 0] + GAMMA * lives * worth(after)
    now = both(held.qvalue_network_params, torch.cat([seen, done], -1))
    least = both(held.target_qvalue_network_params, torch.cat([seen, done], -1)).amin(0)
    gap = least - worth(seen)
    expectile = torch.where(gap > 0, tau, 1 - tau) * gap**2
    mean, raw = relu_net(held.actor_network_params["module", "0", "module", "network"], seen).chunk(
        2, -1
    )
    scale = (-5 + 3.5 * (raw.tanh() + 1)).exp()
    u = torch.atanh(done / 2)
    log_prob = torch.distributions.Normal(mean, scale).log_prob(u)
    log_prob = (log_prob - (2 * (1 - u.tanh() ** 2)).log()).sum(-1)
    weight = (beta * gap).exp().clamp(max=100).detach()
    expected = {
        "loss_qvalue": ((now - target.detach()) ** 2).sum(0).mean(),
        "loss_value": expectile.mean(),
        "loss_actor": -(weight * log_prob).mean(),
    }
    for key, number in expected.items():
        torch.testing.assert_close(values[key], number, atol=1e-4, rtol=1e-4)


def test_td3_with_cloning_is_the_formula_of_the_paper():
    environment = Pendulum(num_envs=1)
    actor = deterministic_actor(
        environment=environment, num_cells=[8, 8], inputs=["observation"], activation="relu"
    )
    loss = TransitionLoss(
        objective=lambda **nets: TD3BCLoss(
            **nets,
            loss_function="l2",
            policy_noise=0.4,
            noise_clip=0.5,
            alpha=2.5,
            action_spec=bounded_actions(environment),
        ),
        networks={"actor_network": actor, "qvalue_network": critic(environment)},
        gamma=GAMMA,
        period={},
    )
    batch = steps(torch.rand(ROWS, 1) * 4 - 2)
    torch.manual_seed(11)
    values = loss(batch)

    torch.manual_seed(11)
    noise = (0.4 * torch.randn(ROWS, 1)).clamp(-0.5, 0.5)
    held = loss.objective
    seen, after = batch["observation"], batch["next", "observation"]
    with torch.no_grad():
        action = 2 * relu_net(held.target_actor_network_params["module", "network"], after).tanh()
        action = (action + noise).clamp(-2, 2)
        ahead = both(held.target_qvalue_network_params, torch.cat([after, action], -1)).amin(0)
        lives = 1 - batch["next", "terminated"][:, 0].float()
        target = batch["next", "reward"][:, 0] + GAMMA * lives * ahead
    now = both(held.qvalue_network_params, torch.cat([seen, batch["action"]], -1))
    action = 2 * relu_net(held.actor_network_params["module", "network"], seen).tanh()
    first = both(held.qvalue_network_params, torch.cat([seen, action], -1))[0]
    # lambda = alpha / mean |Q|
    cloning = ((action - batch["action"]) ** 2).mean()
    expected = -2.5 / first.abs().mean().detach() * first.mean() + cloning
    torch.testing.assert_close(values["loss_qvalue"], ((now - target) ** 2).sum(0).mean())
    torch.testing.assert_close(values["loss_actor"], expected)


def test_double_q_learning_is_the_formula_of_the_paper():
    network = action_values(environment=CartPole(num_envs=1), num_cells=[8, 8])
    loss = TransitionLoss(
        objective=lambda **nets: DQNLoss(**nets, double_dqn=True, action_space="categorical"),
        networks={"value_network": network},
        gamma=GAMMA,
        period={},
    )
    for weight in loss.objective.target_value_network_params.values(True, True):
        weight.data += 0.1 * torch.randn_like(weight)
    batch = steps(torch.randint(2, (ROWS,)))
    value = loss(batch)["loss"]

    held, rows = loss.objective, torch.arange(ROWS)
    online = held.value_network_params["module", "0", "module"]
    frozen = held.target_value_network_params["module", "0", "module"]
    after = batch["next", "observation"]
    best = relu_net(online, after).argmax(-1)  # chosen by the one, judged by the other
    ahead = relu_net(frozen, after)[rows, best]
    lives = 1 - batch["next", "terminated"][:, 0].float()
    target = (batch["next", "reward"][:, 0] + GAMMA * lives * ahead).detach()
    now = relu_net(online, batch["observation"])[rows, batch["action"]]
    torch.testing.assert_close(value, ((now - target) ** 2).mean())


def test_a_loss_is_complete_once_it_is_built():
    loss = sac()
    before = set(loss.state_dict())

    loss(steps(torch.zeros(ROWS, 1)))

    assert set(loss.state_dict()) == before
    assert "objective._target_entropy" in before
    assert float(loss.objective.value_estimator.gamma) == pytest.approx(GAMMA)


def test_an_entry_with_a_period_is_used_on_every_so_many_calls():
    loss = sac()
    loss.period = {"loss_actor": 3}
    batch = steps(torch.zeros(ROWS, 1))

    with torch.enable_grad():
        seen = ["loss_actor" in loss(batch).keys() for _ in range(6)]

    assert seen == [False, False, True, False, False, True]
    assert "loss_qvalue" in loss(batch).keys()


def test_a_period_of_no_entry_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"'loss_actr', no entry of the loss.*'loss_actor'"):
        TransitionLoss(
            objective=SACLoss, networks=sac_networks(), gamma=GAMMA, period={"loss_actr": 2}
        )


def sac_networks():
    environment = Pendulum(num_envs=1)
    actor = gaussian_actor(environment=environment, num_cells=[8], inputs=["observation"])
    return {"actor_network": actor, "qvalue_network": critic(environment)}


def test_the_greatest_error_of_rows_drawn_by_priority_is_remembered():
    torch.manual_seed(3)
    batch = steps(torch.rand(ROWS, 1) * 4 - 2)
    batch["next", "terminated"][:] = True  # the target is the reward
    batch["index"] = torch.arange(ROWS)
    environment = Pendulum(num_envs=1)
    actor = deterministic_actor(
        environment=environment, num_cells=[8, 8], inputs=["observation"], activation="relu"
    )
    twin = TransitionLoss(
        objective=lambda **nets: TD3Loss(**nets, action_spec=bounded_actions(environment)),
        networks={"actor_network": actor, "qvalue_network": critic(environment)},
        gamma=GAMMA,
        period={},
    )
    for loss in (sac(), twin):
        assert loss.errors is None
        loss(batch)

        held = loss.objective
        given = torch.cat([batch["observation"], batch["action"]], -1)
        gap = both(held.qvalue_network_params, given) - batch["next", "reward"][:, 0]
        index, error = loss.errors
        assert index.tolist() == list(range(ROWS))
        # torchrl's is plain of the one and squared of the other; ours is |delta| of both.
        torch.testing.assert_close(error, gap.abs().amax(0).detach(), atol=1e-5, rtol=1e-4)
        assert "td_error" not in batch.keys()


def test_the_error_of_numbered_actions_is_remembered():
    network = action_values(environment=CartPole(num_envs=1), num_cells=[8, 8])
    loss = TransitionLoss(
        objective=lambda **nets: DQNLoss(**nets, action_space="categorical"),
        networks={"value_network": network},
        gamma=GAMMA,
        period={},
    )
    batch = steps(torch.randint(2, (ROWS,)))
    batch["next", "terminated"][:] = True
    batch["index"] = torch.arange(ROWS)

    loss(batch)

    online = loss.objective.value_network_params["module", "0", "module"]
    value = relu_net(online, batch["observation"])[torch.arange(ROWS), batch["action"]]
    gap = (value - batch["next", "reward"][:, 0]).abs().detach()
    torch.testing.assert_close(loss.errors[1], gap, atol=1e-5, rtol=1e-4)
