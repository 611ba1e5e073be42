import functools
import inspect
import math

import pytest
import torch
from tensordict import TensorDict

from components.loss.contrastive import ContrastiveLoss
from components.worlds.point_maze.u_maze import UMaze
from rlcomp.model.continuous_control import gaussian_network_actor
from rlcomp.model.control import ContrastiveCritic
from rlcomp.model.residual import ResidualNetwork


def parts(penalty=0.1, entropy_per_action=0.5, alpha_init=0.3):
    torch.manual_seed(0)
    box = {key: [0.0, 0.5] for key in ("start_low", "start_high", "goal_low", "goal_high")}
    maze = UMaze(num_envs=1, max_steps=9, stride=0.2, radius=0.1, wall=0.5, ends=True, **box)
    network = functools.partial(ResidualNetwork, width=8, depth=4, skip=True, layer_norm=True)
    critic = ContrastiveCritic(
        environment=maze,
        state="observation",
        goal="desired_goal",
        network=network,
        embedding=5,
    )
    actor = gaussian_network_actor(
        environment=maze, inputs=["observation", "desired_goal"], network=network
    )
    return ContrastiveLoss(
        actor=actor,
        critic=critic,
        penalty=penalty,
        entropy_per_action=entropy_per_action,
        alpha_init=alpha_init,
    )


def batch(rows=6):
    torch.manual_seed(1)
    keys = ("observation", "action", "desired_goal")
    return TensorDict({key: torch.rand(rows, 2) * 2 - 1 for key in keys}, batch_size=[rows])


def seeded_loss(loss, rows):
    torch.manual_seed(2)
    return loss(rows)


def test_the_critic_gives_minus_the_distance_of_its_embeddings():
    critic, rows = parts().critic, batch()

    energy = critic(rows["observation"], rows["action"], rows["desired_goal"])

    phi = critic.phi(torch.cat([rows["observation"], rows["action"]], 1))
    psi = critic.psi(rows["desired_goal"])
    expected = [[-math.dist(a, b) for b in psi.tolist()] for a in phi.tolist()]
    torch.testing.assert_close(energy, torch.tensor(expected), atol=1e-5, rtol=1e-5)
    assert phi.shape == psi.shape == (6, 5)


def test_the_losses_by_their_formulas():
    loss, rows = parts(), batch()
    values = seeded_loss(loss, rows).detach()

    f = loss.critic(rows["observation"], rows["action"], rows["desired_goal"]).tolist()
    partition = [math.log(sum(math.exp(x) for x in row)) for row in f]
    nce = sum(z - f[i][i] for i, z in enumerate(partition)) / 6
    square = sum(z * z for z in partition) / 6
    assert float(values["loss_critic"]) == pytest.approx(nce + 0.1 * square, rel=1e-4)
    right = sum(row.index(max(row)) == i for i, row in enumerate(f)) / 6
    assert float(values["accuracy"]) == pytest.approx(right)

    torch.manual_seed(2)
    made = loss.actor.module[0](rows).detach()
    u = made["loc"] + made["scale"] * torch.randn(6, 2)
    action = u.tanh()
    normal = torch.distributions.Normal(made["loc"], made["scale"]).log_prob(u)
    log_prob = (normal - (1 - action**2).log()).sum(-1)
    reached = loss.critic(rows["observation"], action, rows["desired_goal"]).diagonal()
    expected = (0.3 * log_prob - reached).mean()
    assert float(values["loss_actor"]) == pytest.approx(float(expected.detach()), rel=1e-4)
    assert float(values["entropy"]) == pytest.approx(-float(log_prob.mean()), rel=1e-4)
    # H = -.5 x 2 = -1; log alpha = log .3
    temperature = -math.log(0.3) * (float(log_prob.mean()) - 1)
    assert float(values["loss_alpha"]) == pytest.approx(temperature, rel=1e-4)
    assert float(values["alpha"]) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("entry", "trained"),
    [("loss_critic", "critic."), ("loss_actor", "actor."), ("loss_alpha", "log")],
)
def test_each_loss_moves_its_own_weights_alone(entry, trained):
    loss = parts()

    seeded_loss(loss, batch())[entry].backward()

    moved = {name for name, weight in loss.named_parameters() if weight.grad is not None}
    assert moved == {name for name, _ in loss.named_parameters() if name.startswith(trained)}


def test_the_policy_is_drawn_towards_its_goal():
    loss, rows = parts(alpha_init=1e-9), batch(64)
    with torch.no_grad():
        before = float(seeded_loss(loss, rows)["loss_actor"])
    optimizer = torch.optim.Adam(loss.actor.parameters(), lr=1e-2)

    for _ in range(30):
        optimizer.zero_grad()
        seeded_loss(loss, rows)["loss_actor"].backward()
        optimizer.step()

    assert float(seeded_loss(loss, rows)["loss_actor"].detach()) < before - 0.01


def test_the_temperature_falls_where_the_policy_is_surprised_enough():
    loss = parts(entropy_per_action=10.0)  # wants an entropy of -20 nats, has more

    seeded_loss(loss, batch())["loss_alpha"].backward()

    assert float(loss.log_alpha.grad) > 0


@pytest.mark.parametrize(("part", "numbers"), [(ContrastiveCritic, {"embedding": 64})])
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
