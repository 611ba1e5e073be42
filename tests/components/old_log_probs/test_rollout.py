import torch
from tensordict import TensorDict

from components.old_log_probs import RolloutLogProbs


def test_the_old_policy_is_the_one_that_sampled():
    recorded = torch.tensor([[0.0, -1.0]])

    batch = RolloutLogProbs()(TensorDict({"rollout_log_probs": recorded}, batch_size=[1]))

    assert batch["old_log_probs"].tolist() == [[0.0, -1.0]]
