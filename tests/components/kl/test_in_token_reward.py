import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.kl import KLInTokenReward
from components.kl_controller import FixedKL
from rlcomp.interfaces.advantage import broadcast
from rlcomp.testing import check_component, make_batch
from rlcomp.testing.batch import example_batch


def in_token_reward(kl_coef: float = 0.1) -> KLInTokenReward:
    return KLInTokenReward(controller=FixedKL(kl_coef=kl_coef), estimator="k1")


def batch(dtype=torch.float32) -> TensorDict:
    # d = 0.5, -0.2 and 0.4, with a hole in the middle of the first row.
    return make_batch(
        response_mask=[[True, False, True], [True, False, False]],
        old_log_probs=torch.tensor([[-1.0, 9.0, -2.0], [-1.0, 9.0, 9.0]], dtype=dtype),
        ref_log_probs=torch.tensor([[-1.5, 0.0, -1.8], [-1.4, 0.0, 0.0]], dtype=dtype),
    )


def test_every_token_pays_for_its_own_kl():
    reward = in_token_reward()(batch())["token_reward"]

    torch.testing.assert_close(reward, torch.tensor([[-0.05, 0.0, 0.02], [-0.04, 0.0, 0.0]]))


def test_rewards_of_tokens_that_are_there_are_kept():
    rows = batch()
    rows["token_reward"] = torch.tensor([[1.0, float("nan"), 2.0], [0.0, 5.0, 5.0]])
    there = rows["token_reward"].clone()

    reward = in_token_reward()(rows)["token_reward"]

    torch.testing.assert_close(reward, torch.tensor([[0.95, 0.0, 2.02], [-0.04, 0.0, 0.0]]))
    assert there.nan_to_num().tolist() == [[1.0, 0.0, 2.0], [0.0, 5.0, 5.0]]


@pytest.mark.parametrize("key", ["old_log_probs", "ref_log_probs", "token_reward"])
def test_a_reward_has_no_graph_whatever_it_is_made_of(key):
    rows = batch()
    rows["token_reward"] = torch.zeros(2, 3)
    rows[key] = rows[key].requires_grad_()

    reward = in_token_reward()(rows)["token_reward"]

    torch.testing.assert_close(reward, torch.tensor([[-0.05, 0.0, 0.02], [-0.04, 0.0, 0.0]]))
    assert not reward.requires_grad


def test_past_a_baseline_each_token_is_charged_for_itself_and_what_follows():
    rows = in_token_reward()(batch())

    advantage = broadcast(rows, torch.tensor([1.0, -1.0]))["advantage"]

    torch.testing.assert_close(advantage, torch.tensor([[0.97, 0.0, 1.02], [-1.04, 0.0, 0.0]]))


@given(st.integers(0, 2**31 - 1))
def test_the_tokens_pay_together_what_the_response_does(seed):
    keys = ("response_mask", "old_log_probs", "ref_log_probs")
    rows = example_batch(keys, seed=seed, dtype=torch.float64)

    reward = in_token_reward(0.3)(rows.copy())["token_reward"]

    d = torch.where(rows["response_mask"], rows["old_log_probs"] - rows["ref_log_probs"], 0.0)
    torch.testing.assert_close(reward.sum(1), -0.3 * d.sum(1))


def test_it_keeps_the_contract():
    check_component(KLInTokenReward(controller=FixedKL(kl_coef=0.1), estimator="k1"))
