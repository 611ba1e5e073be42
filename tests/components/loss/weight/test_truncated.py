import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.weight.importance import GeometricFilter, MaskedWeight, TruncatedWeight
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch
from rlcomp.testing.batch import example_batch

NAN = float("nan")
KEYS = ("log_probs", "old_log_probs", "rollout_log_probs", "advantage", "response_mask")


def batch():
    # Gaps 0, 0.5, 1 with ratios 1, 1.6487, 2.7183; a sampler without a record; a hole.
    return make_batch(
        response_mask=[[True, True, True, True, False]],
        old_log_probs=[[-1.0, -1.0, -1.0, -1.0, NAN]],
        rollout_log_probs=[[-1.0, -1.5, -2.0, NAN, NAN]],
    )


def loss(weight):
    return PolicyLoss(ratio=TokenRatio(), trust_region=Clip(), reduction=TokenMean(), weight=weight)


def test_ratios_above_the_cap_are_cut():
    weight = TruncatedWeight(cap=2.0)(batch())["token_weight"]

    torch.testing.assert_close(weight, torch.tensor([[1.0, 1.6487213, 2.0, 1.0, 0.0]]))


def test_a_sequence_shares_one_weight():
    # Gaps sum to 1.5.
    weight = TruncatedWeight(level="sequence", cap=9.0)(batch())["token_weight"]

    torch.testing.assert_close(weight, torch.tensor([[4.4816891] * 4 + [0.0]]))


def test_mean_and_second_moment_are_recorded():
    with recording() as ledger:
        TruncatedWeight(cap=2.0)(batch())

    # 1, e^0.5, 2, 1: their squares are 1, e, 4, 1.
    assert ledger.means() == pytest.approx(
        {"weight/mean": (4 + 1.6487213) / 4, "weight/second_moment": (6 + 2.7182818) / 4}
    )


@pytest.mark.parametrize("level", ["token", "sequence", "sequence_mean"])
def test_without_a_gap_every_weight_is_1(level):
    rows = batch()
    rows["rollout_log_probs"] = rows["old_log_probs"]

    assert TruncatedWeight(level=level)(rows)["token_weight"].tolist() == [[1, 1, 1, 1, 0]]


@given(st.integers(0, 50), st.floats(0.5, 3), st.sampled_from(["token", "sequence"]))
def test_masked_weights_are_a_part_of_the_truncated_ones(seed, cap, level):
    rows = example_batch(KEYS, seed=seed, dtype=torch.float64)

    truncated = TruncatedWeight(level=level, cap=cap)(rows.copy())["token_weight"]
    kept = MaskedWeight(level=level, low=0.0, high=cap)(rows.copy())["token_weight"]

    assert bool((truncated <= cap).all())
    torch.testing.assert_close(kept[kept > 0], truncated[kept > 0])


def test_the_weight_scales_the_gradient_and_not_the_denominator():
    # At ratio 1, A = 1: -w / N; without a gradient through the weight.
    rows = batch()
    rows["log_probs"] = rows["old_log_probs"].clone().requires_grad_()
    rows["rollout_log_probs"].requires_grad_()
    rows["advantage"] = torch.ones(1, 5)

    loss({"tis": TruncatedWeight(cap=2.0)})(rows)["loss"].backward()

    expected = torch.tensor([[-0.25, -0.4121803, -0.5, -0.25, 0.0]])
    torch.testing.assert_close(rows["log_probs"].grad, expected)
    assert rows["rollout_log_probs"].grad is None


def test_beside_a_filter_of_sequences_the_weight_of_a_token_is_still_cut():
    # A peer leaves it at e^1 here. The mean gap, 1.5 / 4, is within the filter's bounds.
    rows = batch()
    rows["log_probs"] = rows["old_log_probs"].clone().requires_grad_()
    rows["advantage"] = torch.ones(1, 5)
    weight = {"geometric": GeometricFilter(low=0.5, high=2.0), "tis": TruncatedWeight(cap=1.1)}

    loss(weight)(rows)["loss"].backward()

    assert rows["log_probs"].grad[0, 2].item() == pytest.approx(-1.1 / 4)


def test_a_floor_above_the_cap_is_refused():
    with pytest.raises(ConfigError, match=r"floor is 3\.0, above cap=2\.0"):
        TruncatedWeight(floor=3.0, cap=2.0)
