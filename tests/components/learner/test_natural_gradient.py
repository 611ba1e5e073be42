from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict
from torch.distributions import Categorical, kl_divergence

from components.environment.control import CartPole
from components.learner.natural_gradient import NaturalGradientLearner
from rlcomp.metrics import recording
from rlcomp.model.control import actor
from rlcomp.seed import seeded


def learner(**settings):
    with seeded(0, "actor"):
        policy = actor(environment=CartPole(num_envs=1), num_cells=[8])
    given = {"max_kl": 0.01, "damping": 0.1, "iterations": 10, "shrink": 0.8, "max_shrinks": 10}
    return NaturalGradientLearner(policy=policy, **(given | settings))


def steps(rows=64, seed=1):
    torch.manual_seed(seed)
    entries = {
        "observation": torch.randn(4, rows // 4, 4),
        "action": torch.randint(2, (4, rows // 4)),
        "advantage": torch.randn(4, rows // 4, 1),
    }
    return TensorDict(entries, batch_size=[4, rows // 4])


def weights(part):
    return [weight.detach().clone() for weight in part.policy.parameters()]


def logits(part, batch):
    with torch.no_grad():
        return part.policy(batch.reshape(-1).select("observation"))["logits"]


@pytest.mark.parametrize("max_kl", [0.001, 0.01, 0.1])
def test_a_step_stays_within_the_ball_and_gains(max_kl):
    part, batch = learner(max_kl=max_kl), steps()
    rows = batch.reshape(-1)
    old = Categorical(logits=logits(part, batch))
    with recording() as ledger:
        part(batch)

    now = Categorical(logits=logits(part, batch))
    kl = float(kl_divergence(old, now).mean())
    advantage = rows["advantage"][:, 0]
    advantage = (advantage - advantage.mean()) / advantage.std()
    ratio = (now.log_prob(rows["action"]) - old.log_prob(rows["action"])).exp()
    gain = float((ratio * advantage).mean() - advantage.mean())
    assert 0.3 * max_kl < kl <= max_kl
    assert gain > 0
    told = ledger.means()
    assert told["trust_region/kl"] == pytest.approx(kl, rel=1e-3)
    assert told["trust_region/surrogate_gain"] == pytest.approx(gain, rel=1e-3)
    assert told["trust_region/shrinks"] in range(11)


@pytest.mark.parametrize(
    "after",
    [(1.0, 0.0), (2.0, 0.02)],  # no gain; a gain beyond the ball
)
def test_a_search_that_fails_leaves_the_weights_to_the_bit(after):
    part = learner()
    before, tried = weights(part), []
    length = sum(weight.numel() for weight in before)

    def measure():
        tried.append(weights(part)[0][0, 0] - before[0][0, 0])
        return SimpleNamespace(surrogate=torch.tensor(after[0]), kl=torch.tensor(after[1]))

    with recording() as ledger:
        part._line_search(torch.ones(length), SimpleNamespace(surrogate=torch.tensor(1.0)), measure)

    assert ledger.means() == {"trust_region/shrinks": -1.0}
    assert [float(step) for step in tried] == pytest.approx([0.8**k for k in range(11)], rel=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(part), strict=True))


def test_without_an_advantage_nothing_moves():
    part, batch = learner(), steps()
    batch["advantage"] = torch.zeros_like(batch["advantage"])
    before = weights(part)

    part(batch)

    assert all(torch.equal(a, b) for a, b in zip(before, weights(part), strict=True))


def test_no_gradient_is_left_on_the_weights():
    part = learner()

    part(steps())

    assert all(weight.grad is None for weight in part.policy.parameters())
