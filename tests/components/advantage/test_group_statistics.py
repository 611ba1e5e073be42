"""The components that only broadcast a function of rewards and groups."""

import pytest
import torch
from tensordict import TensorDict

from components.advantage.gdpo import Gdpo
from components.advantage.gpg import Gpg
from components.advantage.group_batch_std import GroupBatchStd
from components.advantage.length_weighted import LengthWeighted
from components.advantage.pass_at_k import PassAtK
from rlcomp.errors import ConfigError
from rlcomp.testing import check_component

PARTS = [
    LengthWeighted(),
    GroupBatchStd(),
    PassAtK(),
    PassAtK(epsilon=None),
    Gpg(),
    Gdpo(weights={"a": 1.0, "b": -0.5}),
]


def batch(rewards: list[float]) -> TensorDict:
    """One group of rows with 3, 1, 2 tokens, and a group of one."""
    mask = torch.tensor([[False, True, True, True], [True, False, False, False]])
    mask = torch.cat([mask, torch.tensor([[True, False, True, False]] * 2)])
    return TensorDict(
        {
            "reward": torch.tensor([*rewards, 9.0]),
            "reward_valid": torch.ones(4, dtype=torch.bool),
            "group_id": torch.tensor([0, 0, 0, 5]),
            "response_mask": mask,
        },
        batch_size=[4],
    )


def of_rows(result: TensorDict) -> list[float]:
    """The advantage on the first token of each response."""
    first = result["response_mask"].long().argmax(1, keepdim=True)
    return result["advantage"].gather(1, first)[:, 0].tolist()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_it_keeps_the_contract(part):
    check_component(part)


def test_opo_weighs_by_the_tokens_of_the_response():
    # Lengths 3 1 2: (3 x 1 + 1 x 0 + 2 x 1) / 6 = 5/6.
    advantage = of_rows(LengthWeighted()(batch([1.0, 0.0, 1.0])))

    assert advantage == pytest.approx([1 / 6, -5 / 6, 1 / 6, 0.0])


def test_the_std_is_that_of_all_rewards():
    # 3 0 0 9: mean 3, squares 0 + 9 + 9 + 36 = 54, unbiased std sqrt(18); group mean 1.
    advantage = of_rows(GroupBatchStd(epsilon=1e-12)(batch([3.0, 0.0, 0.0])))

    assert advantage == pytest.approx([2 / 18**0.5, -1 / 18**0.5, -1 / 18**0.5, 0.0])


def test_only_the_best_answer_counts():
    advantage = of_rows(PassAtK(epsilon=None)(batch([1.0, 4.0, 0.0])))

    assert advantage == [0.0, 3.0, 0.0, 0.0]


def test_few_rewards_are_scaled_up():
    # Two of four rewards are not 0: factor 2 on 2 -1 -1.
    assert of_rows(Gpg()(batch([3.0, 0.0, 0.0]))) == [4.0, -2.0, -2.0, 0.0]


def test_a_weight_of_0_leaves_a_reward_out_and_a_negative_one_turns_it():
    # Standardised 1 0 -1 over the batch's std of (1, 0, -1, 0) = sqrt(2/3).
    rewards = {"a": torch.tensor([2.0, 1.0, 0.0, 9.0]), "b": torch.tensor([0.0, 5.0, 1.0, 9.0])}
    given = batch([0.0, 0.0, 0.0]).set("rewards", TensorDict(rewards, batch_size=[4]))

    advantage = of_rows(Gdpo(weights={"a": -1.0, "b": 0.0}, epsilon=1e-9)(given))

    assert advantage == pytest.approx([-(1.5**0.5), 0.0, 1.5**0.5, 0.0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"a": 1.0}, "'b' has no weight"), ({"a": 1.0, "b": 1.0, "bb": 1.0}, "names 'bb'")],
)
def test_weights_must_name_the_rewards(weights, message):
    rewards = TensorDict({"a": torch.zeros(4), "b": torch.zeros(4)}, batch_size=[4])

    with pytest.raises(ConfigError, match=message):
        Gdpo(weights=weights)(batch([0.0, 0.0, 0.0]).set("rewards", rewards))


def test_no_weights_are_refused():
    with pytest.raises(ConfigError, match="weights is empty"):
        Gdpo(weights={})
