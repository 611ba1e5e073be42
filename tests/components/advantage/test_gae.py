import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.gae import GAE
from rlcomp.metrics import recording
from rlcomp.testing import check_component, example_batch, make_batch

NAN = float("nan")


def batch():
    """The worked example, the same cut at the length limit, and a row without a reward."""
    return make_batch(
        reward=torch.tensor([1.0, 1.0, NAN], dtype=torch.float64),
        reward_valid=[True, True, False],
        truncated=[False, True, False],
        response_mask=[[True, True, False, True, True]] * 3,
        value=torch.tensor([[0.5, 0.2, NAN, 0.1, 0.4]] * 3, dtype=torch.float64),
    )


def test_the_worked_example():
    # See tests/functional/test_returns.py for the steps; returns are advantage + value.
    result = GAE(gamma=0.9, gae_lambda=0.8, whiten=False)(batch())

    wanted = torch.tensor([-0.0404672, 0.38824, 0, 0.692, 0.6], dtype=torch.float64)
    torch.testing.assert_close(result["advantage"][0], wanted)
    wanted = torch.tensor([0.4595328, 0.58824, 0, 0.792, 1.0], dtype=torch.float64)
    torch.testing.assert_close(result["returns"][0], wanted)


def test_the_size_of_the_advantages_of_judged_rows_is_recorded_before_whitening():
    with recording() as ledger:
        GAE(gamma=0.9, gae_lambda=0.8)(batch())

    # The worked example twice; the third row has no reward.
    mean = (0.0404672 + 0.38824 + 0.692 + 0.6) / 4
    assert ledger.means()["advantage/abs"] == pytest.approx(mean)
    assert ledger.counts["advantage/abs"] == 8


def test_a_truncated_response_goes_on_with_the_value_of_its_last_token():
    # d4 = 1 + 0.9 x 0.4 - 0.4 = 0.96; d3 = 0.9 x 0.4 - 0.1 = 0.26, A3 = 0.26 + 0.72 x 0.96.
    result = GAE(gamma=0.9, gae_lambda=0.8, whiten=False, bootstrap_truncated=True)(batch())

    assert result["advantage"][0, -1].item() == pytest.approx(0.6)
    assert result["advantage"][1, 3:].tolist() == pytest.approx([0.9512, 0.96])


def test_an_invalid_reward_pulls_at_neither_policy_nor_critic():
    result = GAE(whiten=False)(batch())

    assert result["advantage"][2].tolist() == [0] * 5
    assert result["returns"][2].tolist() == [0.5, 0.2, 0, 0.1, 0.4]


def test_an_invalid_reward_is_no_part_of_the_whitening():
    together = GAE()(batch())["advantage"][:2]

    torch.testing.assert_close(together, GAE()(batch()[:2])["advantage"])


def test_returns_are_formed_before_whitening():
    result, plain = GAE()(batch()), GAE(whiten=False)(batch())

    assert torch.equal(result["returns"], plain["returns"])
    assert not torch.allclose(result["advantage"], plain["advantage"])


@given(st.integers(0, 10_000))
def test_whitened_advantages_have_mean_0_and_variance_1(seed):
    keys = (*GAE.reads, "token_reward")
    made = example_batch(keys, seed=seed, dtype=torch.float64)

    advantage = GAE()(made)["advantage"]

    kept = advantage[made["response_mask"] & made["reward_valid"][:, None]]
    assert kept.mean().item() == pytest.approx(0, abs=1e-9)
    assert kept.var().item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_it_keeps_the_contract_in_reward_units(bootstrap):
    check_component(GAE(whiten=False, bootstrap_truncated=bootstrap))
