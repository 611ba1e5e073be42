"""TRL's losses with the importance ratio of a sampler, which it is given as a number."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tensordict import TensorDict

from components.loss.policy import PolicyLoss
from components.loss.ratio.token import TokenRatio
from components.loss.reduction.token_mean import TokenMean
from components.loss.trust_region.clip import Clip
from rlcomp.functional.reduction import fixed_length, sequence_mean, token_mean
from rlcomp.interfaces.loss import Part

POLICY = Path(__file__).parent / "policy"


class Given(Part):
    """The weights a case holds."""

    reads = ("response_mask",)
    writes = ("token_weight",)

    def __init__(self, *, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, batch: TensorDict) -> TensorDict:
        batch["token_weight"] = self.weight.expand(batch["response_mask"].shape)
        return batch


@pytest.mark.parametrize("number", [5, 11, 17])
@pytest.mark.parametrize(
    ("name", "reduction", "over_all_rows"),
    [
        ("bnpo", token_mean, False),
        ("dapo", token_mean, False),
        ("dr_grpo", lambda mask: fixed_length(mask, 20), True),
        ("grpo", sequence_mean, True),
    ],
)
def test_trl_s_losses_with_a_given_ratio_are_reproduced(name, reduction, over_all_rows, number):
    tensors = load_file(POLICY / f"trl__grpo_loss_{name}.safetensors")
    held = {key: tensors[f"{number}/{key}"] for key in ("in/mask", "out/loss", "grad/log_prob")}
    new, old, advantage, ratio = (
        tensors[f"{number}/in/{key}"]
        for key in ("log_prob", "old_log_prob", "advantages", "importance_sampling_ratio")
    )
    mask = held["in/mask"].bool()
    share = mask.any(1).double().mean() if over_all_rows else 1.0  # empty rows count there
    rows = TensorDict(
        {
            "response_mask": mask,
            "log_probs": new.requires_grad_(),
            "old_log_probs": old,
            "advantage": advantage[:, None].expand_as(mask),
            "loss_weight": reduction(mask.double()) * share,
        },
        batch_size=[len(mask)],
    )
    loss = PolicyLoss(
        ratio=TokenRatio(),
        trust_region=Clip(clip_low=0.2, clip_high=0.28),
        reduction=TokenMean(),
        weight={"given": Given(weight=ratio)},
    )

    value = loss(rows)["loss"]
    value.backward()

    wanted = torch.where(mask, held["grad/log_prob"], 0.0)
    torch.testing.assert_close(value.detach(), held["out/loss"], atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(new.grad, wanted, atol=1e-9, rtol=1e-9)
