from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from tensordict import TensorDict

from components.advantage.group import GroupMean
from components.advantage.reweighted import Noon
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

CONF = Path(__file__).resolve().parents[3] / "conf"


def batch() -> TensorDict:
    return make_batch(
        reward=[1.0, 0.0, 0.5],
        reward_valid=torch.ones(3, dtype=torch.bool),
        group_id=torch.zeros(3, dtype=torch.int64),
        response_mask=[[False, True, True]] * 3,
    )


def test_answers_below_the_baseline_have_advantage_0():
    # Mean 0.5: 0.5, -0.5, 0.
    advantage = Noon(advantage=GroupMean())(batch())["advantage"]

    assert advantage.tolist() == [[0, 0.5, 0.5], [0, 0, 0], [0, 0, 0]]


def test_single_tokens_are_cut_off_where_dense_rewards_make_them_differ():
    # Row 1: -0.5 + (2 - 1) = 0.5 on its first token, -0.5 - 1 on its last.
    dense = torch.tensor([[0.0] * 3, [0.0, 2.0, -1.0], [0.0] * 3])

    advantage = Noon(advantage=GroupMean())(batch().set("token_reward", dense))["advantage"]

    assert advantage[1].tolist() == [0.0, 0.5, 0.0]


def test_the_share_of_negative_tokens_is_recorded():
    # Of the tokens 0.5 0.5, -0.5 -0.5 and 0 the last row has one only: 2 of 5 are below 0.
    rows = batch()
    rows["response_mask"][2, 1] = False

    with recording() as ledger:
        Noon(advantage=GroupMean())(rows)

    assert ledger.means()["advantage/dropped_negative"] == pytest.approx(2 / 5)


@pytest.mark.parametrize(
    ("inner", "part"), [("group_mean_std", "GroupMeanStd"), ("leave_one_out", "LeaveOneOut")]
)
def test_the_estimator_inside_is_chosen_in_one_word(inner, part):
    words = ["recipe=grpo", "advantage=noon", f"advantage@advantage.advantage={inner}"]
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = compose("config", overrides=words)

    assert config.advantage._target_ == "components.advantage.reweighted.Noon"
    assert config.advantage.advantage._target_ == f"components.advantage.group.{part}"
