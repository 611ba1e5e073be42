import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.gae import GAE, VTrace
from rlcomp.metrics import recording
from rlcomp.testing import check_component, example_batch, make_batch


def batch():
    # Ratios old / rollout: 0.5 and 2; the second row has no reward.
    return make_batch(
        reward=[1.0, 1.0],
        reward_valid=[True, False],
        response_mask=[[False, True, True]] * 2,
        value=[[9.0, 3.0, 2.0]] * 2,
        old_log_probs=[[0, math.log(0.25), math.log(0.5)]] * 2,
        rollout_log_probs=[[0, math.log(0.5), math.log(0.25)]] * 2,
    )


def test_the_ratio_is_that_of_the_start_of_the_update_to_the_sampler_s():
    # gamma 0.5, caps 1: derived in tests/functional/test_returns.py.
    result = VTrace(gamma=0.5)(batch())

    assert result["advantage"][0].tolist() == pytest.approx([0, -1.25, -1])
    assert result["returns"][0].tolist() == pytest.approx([0, 1.75, 1])


def test_caps_are_separate():
    # rho 0.5, 2: d1 = 2 x (1 - 2), vs1 = 0; d0 = -1 as before; c0 = 0.25:
    # vs0 = 3 - 1 + 0.5 x 0.25 x (0 - 2) = 1.75; advantages 0.5 x (0 - 3) and 2 x (1 - 2).
    result = VTrace(gamma=0.5, rho_max=2.0, c_max=0.25)(batch())

    assert result["advantage"][0].tolist() == pytest.approx([0, -1.5, -2])
    assert result["returns"][0].tolist() == pytest.approx([0, 1.75, 0])


def test_without_a_word_traces_are_cut_at_one():
    rows = batch()
    rows["old_log_probs"], rows["rollout_log_probs"] = (
        rows["old_log_probs"].flip(1).roll(1, 1),
        rows["rollout_log_probs"].flip(1).roll(1, 1),
    )

    # Ratios 2 and 0.5. d1 = 0.5 x (1 - 2), vs1 = 1.5; d0 = 0.5 x 2 - 3, c0 = 1:
    # vs0 = 3 - 2 + 0.5 x (1.5 - 2) = 0.75.
    result = VTrace(gamma=0.5)(rows)

    assert result["returns"][0].tolist() == pytest.approx([0, 0.75, 1.5])


def test_an_invalid_reward_pulls_at_neither_policy_nor_critic():
    result = VTrace()(batch())

    assert result["advantage"][1].tolist() == [0, 0, 0]
    assert result["returns"][1].tolist() == [0, 3, 2]


def test_the_share_of_capped_tokens_is_recorded():
    with recording() as ledger:
        VTrace()(batch())

    assert ledger.means()["advantage/rho_capped"] == 0.5


def test_a_token_without_a_recorded_log_prob_has_the_ratio_1():
    unrecorded, on_policy = batch(), batch()
    unrecorded["rollout_log_probs"][0, 1] = torch.nan
    on_policy["rollout_log_probs"][0, 1] = on_policy["old_log_probs"][0, 1]

    for key in ("advantage", "returns"):
        assert VTrace()(unrecorded.copy())[key].tolist() == VTrace()(on_policy.copy())[key].tolist()


def test_on_policy_no_token_is_capped():
    rows = batch()
    rows["rollout_log_probs"] = rows["old_log_probs"]

    with recording() as ledger:
        VTrace(rho_max=1.0)(rows)

    assert ledger.means()["advantage/rho_capped"] == 0.0


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_on_policy_it_is_gae_with_a_full_trace(seed, gamma):
    made = example_batch((*VTrace.reads, "truncated"), seed=seed, dtype=torch.float64)
    made["rollout_log_probs"] = made["old_log_probs"]

    result = VTrace(gamma=gamma)(made.copy())

    wanted = GAE(gamma=gamma, gae_lambda=1.0, whiten=False)(made.copy())
    for key in ("advantage", "returns"):
        torch.testing.assert_close(result[key], wanted[key], atol=1e-9, rtol=1e-9)


def test_it_keeps_the_contract_with_other_caps():
    check_component(VTrace(rho_max=2.0, c_max=1.5))
