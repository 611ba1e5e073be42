import torch
from tensordict import TensorDict

from components.replay.sample import ShuffledRewards


def test_rewards_change_places_and_nothing_else_does():
    number = torch.arange(50.0).view(50, 1)
    batch = TensorDict({"observation": number, "next": {"reward": number}}, batch_size=[50])

    shuffled = ShuffledRewards()(batch.clone())

    reward = shuffled["next", "reward"].flatten()
    assert sorted(reward.tolist()) == list(range(50))
    # A random order keeps one of them in place on average, more than 6 once in 10,000 times.
    assert int((reward == number.flatten()).sum()) <= 6
    assert torch.equal(shuffled["observation"], number)
