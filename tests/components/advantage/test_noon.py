import json
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from safetensors import safe_open
from tensordict import TensorDict

from components.advantage.group_mean import GroupMean
from components.advantage.noon import Noon
from rlcomp.component import Component
from rlcomp.functional.ratio import log_ratio
from rlcomp.functional.surrogate import clipped_surrogate

GOLDEN = Path(__file__).parents[2] / "golden" / "policy"
CONF = Path(__file__).resolve().parents[3] / "conf"


class Given(Component):
    """An estimator that says what it was given."""

    writes = ("advantage",)

    def __init__(self, advantage):
        super().__init__()
        self.given = advantage

    def forward(self, batch):
        batch["advantage"] = self.given
        return batch


def batch() -> TensorDict:
    return TensorDict(
        {
            "reward": torch.tensor([1.0, 0.0, 0.5]),
            "reward_valid": torch.ones(3, dtype=torch.bool),
            "group_id": torch.zeros(3, dtype=torch.int64),
            "response_mask": torch.tensor([[False, True, True]] * 3),
        },
        batch_size=[3],
    )


def test_what_is_worse_than_the_baseline_teaches_nothing():
    # Mean 0.5: 0.5, -0.5, 0.
    advantage = Noon(advantage=GroupMean())(batch())["advantage"]

    assert advantage.tolist() == [[0, 0.5, 0.5], [0, 0, 0], [0, 0, 0]]


def test_single_tokens_are_cut_off_where_dense_rewards_make_them_differ():
    # Row 1: -0.5 + (2 - 1) = 0.5 on its first token, -0.5 - 1 on its last.
    dense = torch.tensor([[0.0] * 3, [0.0, 2.0, -1.0], [0.0] * 3])

    advantage = Noon(advantage=GroupMean())(batch().set("token_reward", dense))["advantage"]

    assert advantage[1].tolist() == [0.0, 0.5, 0.0]


@pytest.mark.parametrize("inner", ["group_mean_std", "leave_one_out"])
def test_the_estimator_inside_is_chosen_in_one_word(inner):
    words = ["recipe=grpo", "advantage=noon", f"advantage@advantage.advantage={inner}"]
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = compose("config", overrides=words)

    assert config.advantage._target_ == "components.advantage.noon.Noon"
    assert config.advantage.advantage._target_.startswith(f"components.advantage.{inner}.")


def test_the_reference_s_loss_and_gradient_are_reproduced():
    with safe_open(GOLDEN / "spec__noon_ppo.safetensors", "pt") as file:
        read, numbers = file.get_tensor, json.loads(file.metadata()["cases"])
        for case, arguments in numbers.items():
            mask = read(f"{case}/in/mask").bool()
            log_probs = read(f"{case}/in/log_prob").requires_grad_()
            given = TensorDict({"response_mask": mask}, batch_size=[len(mask)])
            inner = Given(read(f"{case}/in/advantages"))
            advantage = Noon(advantage=inner)(given)["advantage"]
            ratio = log_ratio(log_probs, read(f"{case}/in/old_log_prob"), mask).exp()
            clip = arguments["eps"]

            loss = -clipped_surrogate(ratio, advantage, clip, clip)[mask].sum() / mask.sum()

            torch.testing.assert_close(loss, read(f"{case}/out/loss"), atol=1e-9, rtol=1e-9)
            (gradient,) = torch.autograd.grad(loss, log_probs)
            want = read(f"{case}/grad/log_prob")
            torch.testing.assert_close(gradient[mask], want[mask], atol=1e-9, rtol=1e-9)
            assert not gradient[read(f"{case}/in/advantages") < 0].any()
