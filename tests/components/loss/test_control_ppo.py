"""torchrl's clipped PPO loss and advantage of control, against the formulas of their papers."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from components.environment.control import CartPole
from rlcomp.model.control import actor, critic

COPIES, STEPS = 3, 6


@pytest.fixture
def networks():
    torch.manual_seed(4)
    environment = CartPole(num_envs=COPIES)
    return (
        actor(environment=environment, num_cells=[8]),
        critic(environment=environment, num_cells=[8]),
    )


def rollout():
    """Random steps; some end an episode, some of these by termination."""
    flag = torch.rand(COPIES, STEPS, 1)
    after = {
        "observation": torch.randn(COPIES, STEPS, 4),
        "reward": torch.randn(COPIES, STEPS, 1),
        "terminated": flag < 0.2,
        "truncated": (flag > 0.2) & (flag < 0.4),
        "done": flag < 0.4,
    }
    entries = {
        "observation": torch.randn(COPIES, STEPS, 4),
        "action": torch.randint(2, (COPIES, STEPS)),
        "action_log_prob": torch.randn(COPIES, STEPS) / 2 - 0.7,
        "advantage": torch.randn(COPIES, STEPS, 1),
        "value_target": torch.randn(COPIES, STEPS, 1),
        "next": after,
    }
    return TensorDict(entries, batch_size=[COPIES, STEPS])


def test_the_clipped_surrogate_is_the_formula_of_the_paper(networks):
    policy, value = networks
    batch = rollout().reshape(-1)
    loss = ClipPPOLoss(
        actor_network=policy,
        critic_network=value,
        clip_epsilon=0.2,
        entropy_bonus=True,
        entropy_coeff=0.1,
        critic_coeff=0.5,
        loss_critic_type="l2",
        normalize_advantage=True,
    )

    values = loss(batch.clone())

    log_probs = policy.module[0](batch.clone())["logits"].log_softmax(-1)
    taken = log_probs.gather(-1, batch["action"].unsqueeze(-1))[:, 0]
    ratio = (taken - batch["action_log_prob"]).exp()
    advantage = batch["advantage"][:, 0]
    advantage = (advantage - advantage.mean()) / advantage.std()
    clipped = ratio.clamp(0.8, 1.2) * advantage
    error = value(batch.clone())["state_value"] - batch["value_target"]
    expected = {
        "loss_objective": -torch.minimum(ratio * advantage, clipped).mean(),
        "loss_critic": 0.5 * (error**2).mean(),
        "loss_entropy": 0.1 * (log_probs.exp() * log_probs).sum(-1).mean(),
    }
    assert bool(((ratio > 1.2) | (ratio < 0.8)).any())
    for key, number in expected.items():
        torch.testing.assert_close(values[key], number, atol=1e-5, rtol=1e-5)


def test_the_advantage_is_a_sum_that_ends_with_the_episode(networks):
    _, value = networks
    batch = rollout()
    told = GAE(gamma=0.9, lmbda=0.8, value_network=value, average_gae=False)(batch.clone())

    now = value(batch.clone())["state_value"].detach()
    later = value(batch["next"].clone())["state_value"].detach()
    after, expected = torch.zeros(COPIES, 1), []
    for step in reversed(range(STEPS)):
        row = batch["next"][:, step]
        ahead = torch.where(row["terminated"], 0.0, later[:, step])  # a cut one has a future
        delta = row["reward"] + 0.9 * ahead - now[:, step]
        after = delta + 0.9 * 0.8 * torch.where(row["done"], 0.0, after)
        expected.insert(0, after)
    advantage = torch.stack(expected, dim=1)
    assert bool(batch["next", "truncated"].any())
    assert bool(batch["next", "terminated"].any())
    torch.testing.assert_close(told["advantage"], advantage, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(told["value_target"], advantage + now, atol=1e-5, rtol=1e-5)
