from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from tensordict import TensorDict

from components.loss.policy import PolicyLoss
from components.loss.ratio.token import TokenRatio
from components.loss.reduction.sequence_mean import SequenceMean
from components.loss.trust_region.clip import Clip
from components.loss.weight.off_policy_mask import OffPolicyMask
from rlcomp.metrics import recording

GOLDEN = Path(__file__).parents[3] / "golden" / "policy" / "trl__opsm_loss.safetensors"
NAN = float("nan")


def batch():
    # rollout - log_probs: means 0.6 (of 1.2 and 0) | 0.4 | 0.6, of a good answer.
    return TensorDict(
        {
            "response_mask": torch.tensor([[True, False, True], [True, True, False], [True] * 3]),
            "log_probs": torch.tensor([[-2.2, NAN, -1.0], [-1.4, -1.4, NAN], [-1.6, -1.6, -1.6]]),
            "rollout_log_probs": torch.tensor([[-1.0, NAN, NAN], [-1.0, -1.0, NAN], [-1.0] * 3]),
            "advantage": torch.tensor([[-1.0] * 3, [-1.0] * 3, [1.0] * 3]),
        },
        batch_size=[3],
    )


def test_bad_answers_left_behind_are_dropped():
    weight = OffPolicyMask(delta=0.5)(batch())["token_weight"]

    assert weight.tolist() == [[0, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_an_answer_the_policy_likes_more_than_the_sampler_is_kept():
    rows = batch()
    rows["log_probs"] = torch.zeros(3, 3)

    assert OffPolicyMask(delta=0.0)(rows)["token_weight"].sum().item() == 7


def test_an_infinite_delta_keeps_everything():
    weight = OffPolicyMask(delta=float("inf"))(batch())["token_weight"]

    assert weight.bool().tolist() == batch()["response_mask"].tolist()


def test_each_token_s_own_advantage_decides():
    rows = batch()
    rows["advantage"] = torch.tensor([[-1.0, 0.0, 2.0], [0.0] * 3, [0.0] * 3])

    assert OffPolicyMask(delta=0.5)(rows)["token_weight"][0].tolist() == [0, 0, 1]


def test_what_is_dropped_is_recorded():
    with recording() as ledger:
        OffPolicyMask(delta=0.5)(batch())

    assert ledger.means() == {"weight/dropped_off_policy": pytest.approx(2 / 7)}


@pytest.mark.parametrize("case", range(6))
def test_trl_s_loss_and_gradient_are_reproduced(case):
    with safe_open(GOLDEN, "pt") as file:
        names = ("log_prob", "old_log_prob", "sampling_log_prob", "advantages", "mask")
        new, old, rollout, advantage, mask = (file.get_tensor(f"{case}/in/{n}") for n in names)
        want = file.get_tensor(f"{case}/out/loss"), file.get_tensor(f"{case}/grad/log_prob")
    rows = TensorDict(
        {
            "response_mask": mask.bool(),
            "log_probs": new.requires_grad_(),
            "old_log_probs": old,
            "rollout_log_probs": rollout,
            "advantage": advantage[:, None].expand_as(mask),
        },
        batch_size=[len(mask)],
    )
    loss = PolicyLoss(
        ratio=TokenRatio(),
        trust_region=Clip(clip_low=0.2, clip_high=0.28),
        reduction=SequenceMean(),
        weight={"opsm": OffPolicyMask(delta=[0.02, 0.5][case % 2])},
    )

    value = loss(rows)["loss"]
    value.backward()

    # The peer divides by all rows, empty ones included; the shares of tokens are float32.
    share = mask.bool().any(1).double().mean()
    torch.testing.assert_close((value * share, new.grad * share), want, atol=1e-7, rtol=0)
