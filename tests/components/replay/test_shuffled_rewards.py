import torch

from components.replay.stages import ShuffledRewards
from rlcomp.testing import make_batch


def test_rewards_change_places_and_nothing_else_does():
    number = torch.arange(50.0).view(50, 1)
    batch = make_batch(observation=number, next={"reward": number})

    shuffled = ShuffledRewards()(batch.clone())

    reward = shuffled["next", "reward"].flatten()
    assert sorted(reward.tolist()) == list(range(50))
    # A random order keeps one of them in place on average, more than 6 once in 10,000 times.
    assert int((reward == number.flatten()).sum()) <= 6
    assert torch.equal(shuffled["observation"], number)
