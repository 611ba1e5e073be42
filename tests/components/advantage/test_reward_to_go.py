import torch

from components.advantage.monte_carlo import RewardToGo
from rlcomp.testing import make_batch


def batch():
    return make_batch(
        reward=[8.0, 5.0],
        reward_valid=[True, False],
        response_mask=[[False, True, False, True], [True, True, False, False]],
    )


def test_the_outcome_is_discounted_per_token_of_the_response():
    # The hole costs no discount; the second reward is invalid.
    advantage = RewardToGo(gamma=0.5)(batch())["advantage"]

    assert advantage.tolist() == [[0, 4, 0, 8], [0, 0, 0, 0]]


def test_dense_rewards_count_from_their_token_on():
    dense = torch.tensor([[9.0, 1, 9, 2], [1, 1, 9, 9]])

    advantage = RewardToGo(gamma=0.5)(batch().set("token_reward", dense))["advantage"]

    # 1 + 0.5 x (2 + 8) and 2 + 8.
    assert advantage.tolist() == [[0, 6, 0, 10], [0, 0, 0, 0]]


def test_without_discount_every_token_gets_the_outcome():
    assert RewardToGo()(batch())["advantage"][0].tolist() == [0, 8, 0, 8]
