import pytest
import torch
from tensordict import TensorDict

from components.kl.in_reward import KLInReward
from rlcomp.run.record import recording


def batch() -> TensorDict:
    return TensorDict(
        {
            "reward": torch.tensor([1.0, 0.0]),
            "response_mask": torch.tensor([[True, True], [True, False]]),
            "old_log_probs": torch.tensor([[-1.0, -2.0], [-1.0, 9.0]]),
            "ref_log_probs": torch.tensor([[-1.5, -2.3], [-1.0, 0.0]]),
        },
        batch_size=[2],
    )


def test_every_nat_of_the_response_costs_its_price():
    # d = 0.5 + 0.3 in the first row, 0 in the second.
    reward = KLInReward(kl_coef=0.1, estimator="k1")(batch())["reward"]

    torch.testing.assert_close(reward, torch.tensor([0.92, 0.0]))


def test_the_reward_given_is_not_changed_in_place():
    rows = batch()
    given = rows["reward"]

    KLInReward(kl_coef=0.1, estimator="k1")(rows)

    assert given.tolist() == [1.0, 0.0]


def test_the_kl_of_each_token_is_recorded():
    with recording() as ledger:
        KLInReward(kl_coef=0.1, estimator="k1")(batch())

    assert ledger.means()["kl/in_reward"] == pytest.approx(0.8 / 3)
