from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from tensordict import TensorDict

from components.loss.entropy import EntropyLoss
from components.loss.policy import PolicyLoss
from components.loss.ratio.token import TokenRatio
from components.loss.reduction.sequence_mean import SequenceMean
from components.loss.reduction.token_mean import TokenMean
from components.loss.trust_region.clip import Clip

GOLDEN = Path(__file__).parents[2] / "golden" / "policy" / "trl__entropy_bonus_loss.safetensors"

KEYS = (
    "in/mask",
    "in/log_prob",
    "in/old_log_prob",
    "in/entropy",
    "in/advantages",
    "out/loss",
    "grad/log_prob",
    "grad/entropy",
)


def batch() -> TensorDict:
    entropy = torch.tensor([[1.0, 2.0, 7.0], [0.6, 7.0, 7.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    return TensorDict({"response_mask": mask, "entropy": entropy}, batch_size=[2])


@pytest.mark.parametrize(
    ("reduction", "mean", "weights"),
    [
        (TokenMean(), 1.2, ((1 / 3, 1 / 3, 0), (1 / 3, 0, 0))),  # (1 + 2 + 0.6) / 3
        (SequenceMean(), 1.05, ((1 / 4, 1 / 4, 0), (1 / 2, 0, 0))),  # (1.5 + 0.6) / 2
    ],
)
def test_entropy_is_paid_for(reduction, mean, weights):
    rows = batch()

    value = EntropyLoss(entropy_coef=0.1, reduction=reduction)(rows)["loss"]
    value.backward()

    assert value.item() == pytest.approx(-0.1 * mean)
    torch.testing.assert_close(rows["entropy"].grad, -0.1 * torch.tensor(weights))


@pytest.mark.parametrize("case", range(3))
def test_trl_s_bonus_is_reproduced(case):
    with safe_open(GOLDEN, "pt") as file:
        entries = {key: file.get_tensor(f"{case}/{key}") for key in KEYS}
    mask = entries["in/mask"].bool()
    rows = TensorDict(
        {
            "response_mask": mask,
            "log_probs": entries["in/log_prob"].requires_grad_(),
            "old_log_probs": entries["in/old_log_prob"],
            "entropy": entries["in/entropy"].requires_grad_(),
            "advantage": torch.where(mask, entries["in/advantages"][:, None], 0.0),
        },
        batch_size=[len(mask)],
    )
    clip = Clip(clip_low=0.2, clip_high=0.28)
    policy = PolicyLoss(ratio=TokenRatio(), trust_region=clip, reduction=TokenMean())

    bonus = EntropyLoss(entropy_coef=0.01, reduction=TokenMean())
    value = policy(rows)["loss"] + bonus(rows)["loss"]
    value.backward()

    # The weights of the tokens are float32.
    torch.testing.assert_close(value.detach(), entries["out/loss"], atol=1e-7, rtol=0)
    for key, name in (("log_probs", "log_prob"), ("entropy", "entropy")):
        torch.testing.assert_close(rows[key].grad, entries[f"grad/{name}"], atol=1e-7, rtol=0)
