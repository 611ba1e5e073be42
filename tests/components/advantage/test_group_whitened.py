from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from tensordict import TensorDict

from components.advantage.group_whitened import GroupWhitened
from rlcomp.testing import example_batch

GOLDEN = Path(__file__).parents[2] / "golden" / "policy"


def batch(reward, group_id, mask, **more):
    rows = len(reward)
    valid = torch.ones(rows, dtype=torch.bool)
    entries = {"reward": reward, "reward_valid": valid, "group_id": group_id, **more}
    return TensorDict({"response_mask": mask, **entries}, batch_size=[rows])


def test_every_token_counts_in_the_mean():
    # R - mean = 1 and -1; on three tokens and one: mean 0.5, variance 1.
    mask = torch.tensor([[True, True, True], [True, False, False]])

    made = batch(torch.tensor([2.0, 0.0]), torch.tensor([7, 7]), mask)
    advantage = GroupWhitened()(made)["advantage"]

    torch.testing.assert_close(advantage, torch.tensor([[0.5, 0.5, 0.5], [-1.5, 0, 0]]))


def test_a_group_of_equal_rewards_moves_with_the_mean_of_the_batch():
    # 1, 1, 1, -1 and 0, 0: mean 1/3, variance (3 x 4/9 + 16/9 + 2/9) / 5 = 2/3.
    mask = torch.tensor([[True, True, True], [True, False, False], [True, False, False]])
    mask = torch.cat([mask, mask[2:]])

    made = batch(torch.tensor([2.0, 0.0, 5.0, 5.0]), torch.tensor([7, 7, 3, 3]), mask)
    advantage = GroupWhitened()(made)["advantage"]

    assert advantage[2:, 0].tolist() == pytest.approx([-(1 / 3) / (2 / 3) ** 0.5] * 2)


def test_a_group_of_one_gets_0_and_changes_nothing():
    mask = torch.tensor([[True, True], [True, False], [True, True]])
    made = batch(torch.tensor([1.0, 0.0, 50.0]), torch.tensor([7, 7, 3]), mask)

    advantage = GroupWhitened()(made.copy())["advantage"]

    assert advantage[2].tolist() == [0, 0]
    assert torch.equal(advantage[:2], GroupWhitened()(made[:2])["advantage"])


def test_an_invalid_reward_leaves_its_only_peer_alone():
    mask = torch.ones(4, 2).bool()
    made = batch(torch.tensor([1.0, 0.0, 9.0, 4.0]), torch.tensor([7, 7, 3, 3]), mask)
    made["reward_valid"] = torch.tensor([True, True, True, False])

    advantage = GroupWhitened()(made)["advantage"]

    assert advantage[:2, 0].sum().item() == pytest.approx(0)
    assert not advantage[2:].any()


@given(st.integers(0, 10_000))
def test_the_mean_over_tokens_is_0_and_the_variance_1(seed):
    made = example_batch(GroupWhitened.reads, rows=9, seed=seed, dtype=torch.float64)

    advantage = GroupWhitened()(made)["advantage"]

    counted = made["response_mask"] & made["reward_valid"][:, None]
    kept = advantage[:-1][counted[:-1]]  # the last row is a group of one
    assert kept.mean().item() == pytest.approx(0, abs=1e-9)
    assert kept.var().item() == pytest.approx(1, abs=1e-4)


def test_verl_s_advantages_are_reproduced():
    tensors = load_file(GOLDEN / "verl__adv_reinforce_pp_baseline.safetensors")
    # Not 1, 4, 7: there verl gives a group of one its raw reward.
    for case in (0, 2, 3, 5, 6, 8):
        mask = tensors[f"{case}/in/response_mask"].bool()
        reward = tensors[f"{case}/in/token_level_rewards"].sum(1)

        made = batch(reward, tensors[f"{case}/in/index"], mask)
        advantage = GroupWhitened()(made)["advantage"]

        wanted = tensors[f"{case}/out/advantages"]
        torch.testing.assert_close(advantage[mask], wanted[mask], atol=1e-9, rtol=1e-9)


def test_openrlhf_s_pipeline_is_reproduced():
    tensors = load_file(GOLDEN / "openrlhf__advantages_pipeline.safetensors")
    # Its cases "reinforce_baseline", without and with a KL coefficient: (case, price, group size).
    for case, kl_coef, answers in (
        (6, 0.0, 3),
        (7, 0.1, 3),
        (18, 0.0, 4),
        (19, 0.1, 4),
        (30, 0.0, 3),
        (31, 0.1, 3),
    ):
        mask, reward = tensors[f"{case}/in/mask"].bool(), tensors[f"{case}/in/rewards"]
        dense, group_id = -kl_coef * tensors[f"{case}/in/kl"], torch.arange(len(mask)) // answers

        advantage = GroupWhitened()(batch(reward, group_id, mask, token_reward=dense))["advantage"]

        # OpenRLHF divides by n, not n - 1, and in float32.
        got = advantage[mask] * (mask.sum() / (mask.sum() - 1)).sqrt()
        wanted = tensors[f"{case}/out/advantages"][mask]
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)
