import math

import pytest

from components.early_stop import RewardHacking
from rlcomp.testing import check_component

GAP, TRUE = "hacking_monitor/gap_z", "hacking_monitor/true_z"
WINDOW = "hacking_monitor/true_window"


def test_it_keeps_the_contract():
    check_component(RewardHacking())


def test_it_ends_when_the_gap_has_grown_and_the_truth_has_fallen(play_steps):
    # Either alone, or just at its bound, is not enough.
    gaps, trues = [5.0, 3.0, 4.0, 5.0, None, 4.5], [0.0, -3.0, -3.0, -2.0, None, -2.5]

    steps = play_steps(RewardHacking(), {GAP: gaps, TRUE: trues, WINDOW: [0.2] * 6})

    assert [step["ended"] is None for step in steps] == [True] * 5 + [False]
    assert steps[-1]["ended"] == (
        "reward hacking: hacking_monitor/gap_z is 4.5, above 4, and hacking_monitor/true_z -2.5, "
        "below -2"
    )


def test_the_best_step_is_that_of_the_best_window(play_steps):
    steps = play_steps(RewardHacking(), {GAP: [0.0] * 3, TRUE: [0.0] * 3, WINDOW: [0.2, 0.4, 0.3]})

    assert [step["early_stop/best"] for step in steps] == [0.2, 0.4, 0.4]


def test_a_gap_without_variance_is_an_alarm(play_steps):
    (step,) = play_steps(RewardHacking(), {GAP: [math.inf], TRUE: [-math.inf], WINDOW: [0.2]})

    assert "is inf, above 4" in step["ended"]


def test_a_mistyped_metric_is_told(play_steps):
    part = RewardHacking(gap="hacking_monitor/gap")

    with pytest.warns(UserWarning, match="early_stop.gap is 'hacking_monitor/gap'"):
        play_steps(part, {GAP: [0.0], TRUE: [0.0], WINDOW: [0.2]})
