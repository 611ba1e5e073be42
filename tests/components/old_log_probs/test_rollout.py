import torch

from components.old_log_probs import RolloutLogProbs
from rlcomp.testing import make_batch


def test_the_old_policy_is_the_one_that_sampled():
    recorded = torch.tensor([[0.0, -1.0]])

    batch = RolloutLogProbs()(make_batch(rollout_log_probs=recorded))

    assert batch["old_log_probs"].tolist() == [[0.0, -1.0]]
