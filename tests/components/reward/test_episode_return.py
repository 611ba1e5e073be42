import pytest
import torch
from tensordict import TensorDict

from components.reward.episode_return import EpisodeReturn
from rlcomp.metrics import recording


def test_rewards_of_turns_are_summed():
    mask = torch.tensor([[False, True, True, False, True], [True, True, False, False, False]])
    paid = torch.tensor([[9.0, 0.0, 0.5, 9.0, 0.75], [0.0, -1.0, 9.0, 9.0, 9.0]])
    batch = TensorDict({"response_mask": mask, "turn_reward": paid}, batch_size=[2])

    with recording() as ledger:
        found = EpisodeReturn(correct_from=1.25)(batch)

    # What stands outside the response was paid to nobody.
    assert found["reward"].tolist() == [1.25, -1.0]
    assert found["rewards"]["episode_return"].tolist() == [1.25, -1.0]
    assert found["correct"].tolist() == [True, False]
    assert found["reward_valid"].all()
    assert ledger.means()["reward/mean"] == pytest.approx(0.125)
