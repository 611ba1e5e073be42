import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.gae import GAE, VAPO
from rlcomp.metrics import recording
from rlcomp.testing import check_component, example_batch, make_batch


def batch(length, rows=1):
    width = length + 1
    mask = torch.arange(width) > 0
    return make_batch(
        reward=torch.ones(rows, dtype=torch.float64),
        reward_valid=torch.ones(rows, dtype=torch.bool),
        truncated=torch.zeros(rows, dtype=torch.bool),
        response_mask=mask.expand(rows, width),
        value=torch.linspace(0, 1, width, dtype=torch.float64).expand(rows, width),
    )


def test_the_trace_of_forty_tokens_has_lambda_one_half():
    # 1 - 1 / (0.05 x 40) = 0.5. The critic's targets have lambda 1: the outcome.
    result, half = VAPO(whiten=False)(batch(40)), GAE(gae_lambda=0.5, whiten=False)(batch(40))

    torch.testing.assert_close(result["advantage"], half["advantage"])
    assert result["returns"][0].tolist() == pytest.approx([0] + [1] * 40)


def test_a_short_response_looks_one_step_ahead():
    # 10 tokens: 1 - 1 / 0.5 = -1, held at 0. Values are k / 10, so each step is worth 0.1 more;
    # the last one 1 - 10 / 10.
    advantage = VAPO(whiten=False)(batch(10))["advantage"]

    assert advantage[0].tolist() == pytest.approx([0] + [0.1] * 9 + [0])


def test_the_lambda_is_recorded():
    with recording() as ledger:
        VAPO()(batch(100, rows=2))

    assert ledger.means()["advantage/gae_lambda"] == pytest.approx(0.8)


def test_an_invalid_reward_pulls_at_neither_policy_nor_critic():
    made = batch(5, rows=2)
    made["reward_valid"] = torch.tensor([True, False])

    result = VAPO(whiten=False)(made)

    assert result["advantage"][1].tolist() == [0] * 6
    assert torch.equal(result["returns"][1], made["value"][1])


@given(st.integers(0, 10_000))
def test_whitened_advantages_have_mean_0_and_variance_1(seed):
    made = example_batch(VAPO.reads, seed=seed, dtype=torch.float64)

    advantage = VAPO()(made)["advantage"]

    kept = advantage[made["response_mask"] & made["reward_valid"][:, None]]
    assert kept.mean().item() == pytest.approx(0, abs=1e-9)
    assert kept.var().item() == pytest.approx(1, abs=1e-4)


def test_it_keeps_the_contract_in_reward_units():
    check_component(VAPO(whiten=False, alpha=0.5))
