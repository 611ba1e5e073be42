import pytest
import torch
from tensordict import TensorDict

from components.advantage.pass_at_k import PassAtKTraining
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import check_component


@pytest.mark.parametrize("k", [2, 4])
def test_it_keeps_the_contract(k):
    check_component(PassAtKTraining(k=k))


def test_a_failure_is_blamed_less_where_the_rest_succeeds(three_and_one, of_rows):
    # One of 3 right: of the pairs 1 1 0, mean 2/3, std sqrt(2)/3; the right one (1 - 2/3) / std,
    # a wrong one is in a pair of 1 and a pair of 0: (1/2 - 2/3) / std.
    advantage = of_rows(PassAtKTraining(k=2)(three_and_one(1.0, 0.0, 0.0)))

    std = 2**0.5 / 3
    assert advantage == pytest.approx([1 / 3 / std, -1 / 6 / std, -1 / 6 / std, 0.0])


def test_the_mean_best_of_k_is_recorded():
    # Group 0: 1 0 0, pairs 1 1 0; group 1: 0 0 0 0 with pairs of 0; the third has one valid answer.
    entries = {
        "reward": torch.tensor([1.0, 0, 0, 0, 0, 0, 0, 5, 1]),
        "reward_valid": torch.tensor([1, 1, 1, 1, 1, 1, 1, 0, 1]).bool(),
        "group_id": torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2]),
        "response_mask": torch.ones(9, 1).bool(),
    }

    with recording() as ledger:
        PassAtKTraining(k=2)(TensorDict(entries, batch_size=[9]))

    assert ledger.means()["advantage/best_of_k"] == pytest.approx(3 * (2 / 3) / 7)


def test_a_group_smaller_than_k_is_refused_before_the_run(rlcomp, tmp_path, capsys):
    words = ("advantage=pass_at_k_training", "advantage.k=6", "rollout.group_size=5")

    assert rlcomp(*words, f"directory={tmp_path}") != 0

    assert "compares at least 6 answers per prompt" in capsys.readouterr().err


def test_subsets_of_one_are_refused():
    with pytest.raises(ConfigError, match=r"k is 1: must be at least 2"):
        PassAtKTraining(k=1)
