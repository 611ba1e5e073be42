"""The KL penalty of a row weighs as its domain says: in every place where there is one."""

import pytest
import torch
from tensordict import TensorDict

from components.kl import KLInReward, KLInRewardFull, KLInTokenReward
from components.kl_controller import FixedKL
from components.loss.kl import KLFullLoss, KLLoss, KLRatioLoss
from components.loss.reduction import TokenMean
from rlcomp.metrics import recording

HALF = torch.tensor([[0.5, 0.5]]).log().repeat(2, 2, 1)  # [B, T, V]
SKEW = torch.tensor([[0.2, 0.8]]).log().repeat(2, 2, 1)
# 0.5 log(0.5 / 0.2) + 0.5 log(0.5 / 0.8)
FULL = 0.22314355


def batch(*weights):
    entries = {
        "reward": torch.tensor([1.0, 1.0]),
        "response_mask": torch.tensor([[True, True], [True, False]]),
        "old_log_probs": torch.tensor([[-1.0, -2.0], [-1.0, 9.0]]),
        "ref_log_probs": torch.tensor([[-1.5, -2.3], [-1.4, 0.0]]),
        "tokens": torch.zeros(2, 2, dtype=torch.int64),
        "attention_mask": torch.ones(2, 2, dtype=torch.bool),
        "log_distribution": HALF,
        "ref_log_distribution": SKEW,
    }
    for key in ("log_probs", "rollout_log_probs"):
        entries[key] = entries["old_log_probs"]
    if weights:
        entries["kl_weight"] = torch.tensor(weights)
    return TensorDict(entries, batch_size=[2])


class Fixed:
    def log_distribution(self, batch):
        return batch["log_distribution"]


CONTROLLER = FixedKL(kl_coef=0.1)
IN_LOSS = {"controller": CONTROLLER, "reduction": TokenMean()}


def test_in_the_reward():
    # d = 0.5 + 0.3 in the first row, 0.4 in the second.
    reward = KLInReward(controller=CONTROLLER, estimator="k1")(batch(2.0, 0.5))["reward"]

    assert reward.tolist() == pytest.approx([1 - 0.16, 1 - 0.02])


def test_in_the_reward_over_the_vocabulary():
    reward = KLInRewardFull(policy=Fixed(), controller=CONTROLLER)(batch(2.0, 0.5))["reward"]

    assert reward.tolist() == pytest.approx([1 - 0.4 * FULL, 1 - 0.05 * FULL])


def test_in_the_rewards_of_tokens():
    result = KLInTokenReward(controller=CONTROLLER, estimator="k1")(batch(2.0, 0.5))

    expected = torch.tensor([[-0.1, -0.06], [-0.02, 0.0]])
    torch.testing.assert_close(result["token_reward"], expected)


@pytest.mark.parametrize(
    ("part", "rows"),
    [
        (KLLoss(estimator="k1", **IN_LOSS), (0.8, 0.4)),
        (KLRatioLoss(estimator="k1_ratio", **IN_LOSS), (0.8, 0.4)),
        (KLFullLoss(**IN_LOSS), (2 * FULL, FULL)),
    ],
)
def test_the_weight_is_in_the_loss_and_not_in_the_metrics(part, rows):
    with recording() as ledger:
        weighed = part(batch(2.0, 0.5))["loss"].item()
    plain = part(batch())["loss"].item()

    assert weighed == pytest.approx(0.1 * (2 * rows[0] + 0.5 * rows[1]) / 3)
    assert plain == pytest.approx(0.1 * sum(rows) / 3)
    assert ledger.means()["kl/in_loss"] == pytest.approx(sum(rows) / 3)
