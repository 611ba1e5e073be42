import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.advantage.pass_at_k import PassAtK
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import check_component


@pytest.mark.parametrize("k", [None, 2, 4])
@pytest.mark.parametrize("epsilon", [None, 1e-6])
def test_it_keeps_the_contract(k, epsilon):
    check_component(PassAtK(k=k, epsilon=epsilon))


def test_only_the_best_answer_counts(three_and_one, of_rows):
    # The best one, 4, leads the second best by 3.
    advantage = of_rows(PassAtK(epsilon=None)(three_and_one(1.0, 4.0, 0.0)))

    assert advantage == [0.0, 3.0, 0.0, 0.0]


def test_two_right_answers_have_an_advantage_if_k_is_less_than_n(three_and_one, of_rows):
    rows = three_and_one(1.0, 0.0, 1.0)

    assert of_rows(PassAtK(k=3, epsilon=None)(rows)) == [0.0, 0.0, 0.0, 0.0]
    # Of the pairs (1 2), (1 3), (2 3) the first adds 1 to one, the third to one: 1 / 3 each.
    assert of_rows(PassAtK(k=2, epsilon=None)(rows)) == pytest.approx([1 / 3, 0.0, 1 / 3, 0.0])
    # Over the group's std, sqrt(1 / 3).
    divided = of_rows(PassAtK(k=2, epsilon=1e-9)(rows))
    assert divided == pytest.approx([3**-0.5, 0.0, 3**-0.5, 0.0])


def test_the_mean_best_of_k_is_recorded():
    # Group 0: 4 valid of 5, rewards 1 0 0 3. Pairs: 1 1 3 0 3 3, mean 11 / 6; group 1: 2 0, best 2.
    # Group 2 has one valid answer.
    mask = torch.ones(8, 2).bool()
    valid = torch.tensor([1, 1, 1, 1, 0, 1, 1, 1]).bool()
    entries = {
        "reward": torch.tensor([1.0, 0, 0, 3, 9, 2, 0, 7]),
        "reward_valid": valid,
        "group_id": torch.tensor([0, 0, 0, 0, 0, 1, 1, 2]),
        "response_mask": mask,
    }

    with recording() as ledger:
        PassAtK(k=2)(TensorDict(entries, batch_size=[8]))

    assert ledger.means()["advantage/best_of_k"] == pytest.approx((4 * 11 / 6 + 2 * 2) / 6)


def test_a_group_smaller_than_k_is_refused_before_the_run(rlcomp, tmp_path, capsys):
    assert rlcomp("advantage=pkpo", "rollout.group_size=3", f"directory={tmp_path}") != 0

    assert "compares at least 4 answers per prompt" in capsys.readouterr().err


def test_min_group_size_is_k_and_2_without_k():
    assert [PassAtK(k=k).min_group_size for k in (None, 2, 5)] == [2, 2, 5]


def test_the_best_of_1_is_refused():
    with pytest.raises(ConfigError, match=r"k is 1: must be at least 2"):
        PassAtK(k=1)


@given(seed=st.integers(0, 10000))
def test_at_most_one_answer_of_a_group_is_credited_and_none_is_blamed(drawn, seed):
    rows = drawn(seed)

    advantage = PassAtK()(rows)["advantage"]

    credited = rows["group_id"][(advantage != 0).any(1)].tolist()
    assert len(credited) == len(set(credited))
    assert bool((advantage >= 0).all())
