"""Returns and failures of episodes."""

import pytest
import torch
import yaml

from components.reward.answer import ExactMatch
from components.reward.episode import EpisodeReturn
from rlcomp.config.declarations import read_declaration
from rlcomp.config.options import config_directory
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def test_rewards_of_turns_are_summed():
    mask = torch.tensor([[False, True, True, False, True], [True, True, False, False, False]])
    paid = torch.tensor([[9.0, 0.0, 0.5, 9.0, 0.75], [0.0, -1.0, 9.0, 9.0, 9.0]])
    batch = make_batch(response_mask=mask, turn_reward=paid)

    with recording() as ledger:
        result = EpisodeReturn(correct_from=1.25)(batch)

    # Rewards outside the response do not count.
    assert result["reward"].tolist() == [1.25, -1.0]
    assert result["rewards"]["episode_return"].tolist() == [1.25, -1.0]
    assert result["correct"].tolist() == [True, False]
    assert result["reward_valid"].all()
    assert ledger.means()["reward/mean"] == pytest.approx(0.125)


@pytest.mark.parametrize("reward", [EpisodeReturn(), ExactMatch()])
def test_episodes_whose_environment_failed_are_no_part_of_the_mean(reward):
    # The second of three right ones failed and does not count.
    batch = make_batch(
        prompt=["a="] * 4,
        answer=["b"] * 4,
        response=["b", "b", "b", "c"],
        episode_error=["", "it broke", "", ""],
        response_mask=torch.ones(4, 1).bool(),
        turn_reward=[[1.0], [1.0], [1.0], [0.0]],
    )

    with recording() as ledger:
        result = reward(batch)

    assert result["reward"].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert result["reward_valid"].tolist() == [True, False, True, True]
    means = ledger.means()
    assert means["reward/mean"] == pytest.approx(2 / 3)
    assert means["reward/correct"] == pytest.approx(2 / 3)
    assert means["reward/invalid_fraction"] == 0.25


def test_a_return_that_is_beyond_float32_is_not_valid():
    turns = torch.tensor([[3e38, 3e38], [1.0, 0.0]])
    batch = make_batch(response_mask=torch.ones(2, 2).bool(), turn_reward=turns)

    result = EpisodeReturn()(batch)

    assert result["reward_valid"].tolist() == [False, True]
    assert result["reward"].tolist() == [0.0, 1.0]
    assert result["correct"].tolist() == [False, True]


def test_every_reward_declares_episode_error():
    files = sorted((config_directory() / "reward").glob("*.yaml"))
    targets = {(yaml.safe_load(file.read_text()) or {}).get("_target_") for file in files}
    rewards = [read_declaration(target) for target in targets - {None}]
    judging = [each for each in rewards if "reward_valid" in each.writes]

    assert len(judging) > 30
    unsaid = {each.name for each in judging if "episode_error" not in each.optional}
    # ShuffledReward copies another reward; a game of masks, a search and a flow
    # have no episodes.
    assert unsaid == {"ShuffledReward", "MaskGameReward", "ProofMembership", "ModeDistance"}
