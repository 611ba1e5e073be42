"""What float32 rounds is no difference of rewards."""

import pytest
import torch

from rlcomp.functional.best_of import pass_at_k_training_advantage, pkpo_advantage
from rlcomp.functional.group import (
    gdpo_advantage,
    group_batch_standardised,
    group_standardised,
    mean_normalised,
    weighted_token_advantage,
)
from rlcomp.functional.group_statistics import weighted_total
from rlcomp.functional.length import length_deviation
from rlcomp.functional.moments import merged_moments, running_std, whiten
from rlcomp.functional.process_reward import step_advantage
from rlcomp.functional.turn_credit import mt_grpo_turns
from rlcomp.functional.value import explained_variance
from rlcomp.pareto.objectives import centre_rewards


def test_terms_that_cancel_but_for_rounding_leave_nothing():
    # .3 - .1 - .2 of float32 numbers is 7.5e-9 in float64, and 3e-8 in float32.
    parts = {"a": torch.tensor([0.3, 0.5]), "b": torch.tensor([0.1, 0.1]), "c": torch.tensor([0.2])}
    parts["c"] = parts["c"].expand(2)

    total = weighted_total(parts, {"a": 1.0, "b": -1.0, "c": -1.0})

    assert total[0] == 0
    assert total[1] == pytest.approx(0.2, rel=1e-6)
    assert total.dtype == torch.float32


def test_equal_totals_of_different_parts_are_equal():
    # .2 * 0 + .6 * 200 = .2 * 300 + .6 * 100 = 120, which float32 sums miss by a step.
    parts = {"a": torch.tensor([0.0, 300.0]), "b": torch.tensor([200.0, 100.0])}

    assert weighted_total(parts, {"a": 0.2, "b": 0.6}).tolist() == [120, 120]


# Float32 numbers that are equal but for one step of it, in groups of four.
STEP = float(torch.nextafter(torch.tensor(120.0), torch.tensor(121.0)))
EQUAL = torch.tensor([STEP, 120.0, 120.0, 120.0])
GROUP, VALID = torch.zeros(4, dtype=torch.int64), torch.ones(4, dtype=torch.bool)


@pytest.mark.parametrize("wide", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "estimate",
    [
        lambda r: group_standardised(r, GROUP, VALID, 1e-6),
        lambda r: group_batch_standardised(r, GROUP, VALID, 1e-6),
        lambda r: gdpo_advantage({"a": r, "b": -r}, {"a": 0.3, "b": 0.7}, GROUP, VALID, 1e-6),
        lambda r: mean_normalised(r, GROUP, VALID),
        lambda r: pkpo_advantage(r, GROUP, VALID, 2, 1e-6),
        lambda r: pass_at_k_training_advantage(r, GROUP, VALID, 2),
        lambda r: length_deviation(r, GROUP, VALID),
        lambda r: whiten(r[None], VALID[None]),
        lambda r: step_advantage(r[:, None], VALID[:, None], GROUP, VALID, 1e-6),
        lambda r: mt_grpo_turns(r[:, None].expand(4, 2), VALID.expand(2, 4).T, VALID, GROUP, 1e-6),
        lambda r: weighted_token_advantage(
            r[:, None], torch.ones(4, 1).to(r), VALID[:, None], GROUP
        ),
        lambda r: centre_rewards(r[:, None], GROUP),
    ],
)
def test_a_step_of_float32_is_no_advantage(estimate, wide):
    assert not bool(estimate(EQUAL.to(wide)).any())


def test_parts_of_opposite_sign_leave_no_advantage():
    part = torch.tensor([0.1, 0.7, 0.3, 0.2])

    result = gdpo_advantage({"a": part, "b": 1 - part}, {"a": 1.0, "b": 1.0}, GROUP, VALID, 1e-12)

    assert result.abs().max() == 0


def test_running_statistics_of_equal_rewards_are_of_no_spread():
    zero = torch.zeros((), dtype=torch.float64)
    moments = merged_moments(zero, zero, zero, EQUAL.double())

    assert running_std(*moments) == float("inf")
    assert running_std(*merged_moments(*moments, torch.tensor([121.0]).double())) < 1


def test_returns_that_differ_by_rounding_have_no_explained_variance():
    assert explained_variance(EQUAL[None] - 1, EQUAL[None], VALID[None]).isnan()
