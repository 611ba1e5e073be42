import inspect
import math

import pytest
import torch

from components.environment.control import CartPole
from components.worlds.point_maze.reach import Reach
from rlcomp.component import limit_outputs
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import ScoresRows
from rlcomp.model.action_tokens import ActionTokenPolicy
from rlcomp.model.weight_snapshot import WeightSnapshot
from rlcomp.testing import make_batch


def policy(**changed):
    torch.manual_seed(2)
    environment = Reach(num_envs=1, max_steps=5, stride=0.1, radius=0.05)
    given = {
        "environment": environment,
        "inputs": ["observation", "desired_goal"],
        "num_cells": [6],
        "action_bins": 7,
        "observation_bins": 21,
        "low": -1.0,
        "high": 1.0,
    }
    return ActionTokenPolicy(**{**given, **changed})


def seen(*rows):
    numbers = torch.tensor(rows)
    return make_batch(observation=numbers[:, :2], desired_goal=numbers[:, 2:])


def rows(tokens, mask):
    return make_batch(tokens=tokens, response_mask=mask)


def test_what_is_seen_is_tokens_behind_padding_and_actions_come_behind_them():
    made = policy()

    # 21 bins of .1 from -1: bin 0 is token 1.
    assert made.encode_observation(seen([-1.0, 1.0, 0.0, 0.12])).tolist() == [[1, 21, 11, 12]]
    # Seven bins of 1/3 behind tokens 0..21.
    assert made.encode_action(torch.tensor([[-1.0, 0.3], [0.9, -9.0]])).tolist() == [
        [22, 26],
        [28, 22],
    ]
    back = made.decode_action(torch.tensor([[1, 21, 11, 12, 22, 26]]))
    torch.testing.assert_close(back, torch.tensor([[-1.0, 1 / 3]]))
    assert (made.observation_size, made.action_size, made.width) == (4, 2, 6)


def test_the_log_prob_of_an_episode_is_the_sum_over_its_action_tokens():
    made = policy()
    first, second = [1, 21, 11, 12, 22, 26], [5, 5, 7, 9, 28, 23]
    tokens = torch.tensor([[*first, *second], [*second, 0, 0, 0, 0, 0, 0]])
    acts = torch.tensor([False] * 4 + [True] * 2)
    mask = torch.stack([acts.repeat(2), torch.cat([acts, torch.zeros(6, dtype=torch.bool)])])

    scored = made(rows(tokens, mask))

    def by_hand(step):
        values = torch.tensor([-1 + 0.1 * (token - 1) for token in step[:4]])
        logits = made.network(values).view(2, 7)
        chosen = [token - 22 for token in step[4:]]
        one = [torch.distributions.Categorical(logits=logits[i]) for i in range(2)]
        probs = [one[i].log_prob(torch.tensor(chosen[i])) for i in range(2)]
        return torch.stack(probs), torch.stack([each.entropy() for each in one])

    for row, at, step in ((0, 0, first), (0, 6, second), (1, 0, second)):
        log_prob, entropy = by_hand(step)
        torch.testing.assert_close(scored["log_probs"][row, at + 4 : at + 6], log_prob)
        torch.testing.assert_close(scored["entropy"][row, at + 4 : at + 6], entropy)
    total = by_hand(first)[0].sum() + by_hand(second)[0].sum()
    torch.testing.assert_close(scored["log_probs"][0].sum(), total)
    assert not scored["log_probs"][~mask].any()
    assert not scored["entropy"][~mask].any()


def test_drawing_records_what_scoring_finds_and_follows_the_probabilities():
    made = policy()
    states = seen(*[[0.5, -0.5, 0.0, 0.2]] * 4000)

    tokens, log_probs = made.act(states, torch.Generator().manual_seed(0))

    mask = torch.tensor([False] * 4 + [True] * 2).expand(4000, 6)
    scored = made(rows(tokens, mask))["log_probs"]
    torch.testing.assert_close(scored[:, 4:], log_probs)
    share = torch.bincount(tokens[:, 4] - 22, minlength=7) / 4000
    expected = made._bin_log_probs(tokens[:1, :4], None)[0, 0].exp()
    # A share of 4,000 is known to .008.
    torch.testing.assert_close(share, expected, atol=0.03, rtol=0)


def test_without_a_generator_the_most_likely_bins_are_taken():
    made = policy()
    states = seen([0.5, -0.5, 0.0, 0.2])

    tokens, log_probs = made.act(states, None)

    best = made._bin_log_probs(tokens[:, :4], None).max(-1)
    assert torch.equal(tokens[:, 4:] - 22, best.indices)
    assert torch.equal(log_probs, best.values)
    assert not log_probs.requires_grad


def test_other_weights_score_for_a_reference():
    made = policy()
    copied = WeightSnapshot(made)
    tokens, _ = made.act(seen([0.5, -0.5, 0.0, 0.2]), None)
    batch = rows(tokens, torch.tensor([[False] * 4 + [True] * 2]))
    before = made.log_probs(batch).detach()
    with torch.no_grad():
        for weight in made.network.parameters():
            weight.mul_(2.0)

    torch.testing.assert_close(made.log_probs(batch, copied.weights()), before)
    assert not torch.allclose(made.log_probs(batch), before)


def test_it_is_what_a_learner_asks_for():
    made = policy()
    made.updated()

    assert isinstance(made, ScoresRows)
    assert made.version == 1
    assert made.device.type == "cpu"
    with limit_outputs({"log_probs"}):
        mask = torch.ones(1, 6, dtype=torch.bool)
        assert "entropy" not in made(rows(torch.ones(1, 6, dtype=torch.int64), mask)).keys()


def test_an_untrained_policy_is_not_sure_of_anything():
    made = policy()
    tokens, _ = made.act(seen([0.5, -0.5, 0.0, 0.2]), None)
    batch = rows(tokens, torch.tensor([[False] * 4 + [True] * 2]))

    assert float(made(batch)["entropy"].detach().amax()) <= math.log(7) + 1e-6


def test_numbered_actions_are_refused():
    with pytest.raises(ConfigError, match="bounded vectors"):
        policy(environment=CartPole(num_envs=1), inputs=["observation"])


@pytest.mark.parametrize("bins", [{"action_bins": 1}, {"observation_bins": 1}])
def test_a_single_bin_is_refused(bins):
    with pytest.raises(ConfigError, match="at least 2"):
        policy(**bins)
    assert policy(**dict.fromkeys(bins, 2)).width == 6


@pytest.mark.parametrize(
    ("part", "numbers"),
    [(ActionTokenPolicy, {"action_bins": 7, "observation_bins": 256, "low": -1.0, "high": 1.0})],
)
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
