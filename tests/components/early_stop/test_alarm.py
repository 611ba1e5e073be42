import math

import pytest

from components.early_stop import Alarm
from rlcomp.errors import ConfigError
from rlcomp.testing import check_component

NAME, WATCH = "evaluation/sampled", "policy/entropy"


def alarm(**changed):
    return Alarm(**({"metric": NAME, "watch": WATCH, "low": 0.1, "patience": 2} | changed))


def test_it_keeps_the_contract():
    check_component(alarm())


def test_it_ends_when_the_metric_was_outside_often_enough_in_a_row(play_steps):
    # .1 is inside; what is not recorded does not count.
    steps = play_steps(alarm(), {WATCH: [0.05, 0.1, 0.05, None, 0.01]})

    assert [step["ended"] is None for step in steps] == [True] * 4 + [False]
    assert [step.get("early_stop/alarm") for step in steps] == [1, 0, 1, None, 2]
    assert steps[-1]["ended"] == (
        "alarm: policy/entropy was below 0.1 2 times in a row, 0.01 at last"
    )


def test_it_may_be_too_high_as_well(play_steps):
    steps = play_steps(alarm(low=None, high=2.0, patience=1), {WATCH: [2.0, 2.5]})

    assert [step["ended"] for step in steps] == [
        None,
        "alarm: policy/entropy was above 2 1 times in a row, 2.5 at last",
    ]


@pytest.mark.parametrize(
    ("range_", "value", "told"),
    [
        ({"low": None, "high": 2.0}, math.inf, "was above 2 1 times in a row, inf at last"),
        ({"low": 0.1}, -math.inf, "was below 0.1 1 times in a row, -inf at last"),
        ({"low": 0.1}, math.nan, "was not a number 1 times in a row, nan at last"),
        ({"low": None, "high": 2.0}, math.nan, "was not a number 1 times"),
        ({"low": 0.1}, math.inf, None),
        ({"low": None, "high": 2.0}, -math.inf, None),
    ],
)
def test_a_value_that_is_not_finite_is_no_silence(play_steps, range_, value, told):
    (step,) = play_steps(alarm(patience=1, **range_), {WATCH: [value]})

    assert (step["ended"] is None) == (told is None)
    assert (told or "") in (step["ended"] or "")


def test_the_best_step_is_that_of_the_held_out_metric(play_steps):
    steps = play_steps(alarm(), {NAME: [0.5, 0.4], WATCH: [0.05, 0.05]})

    assert steps[0]["best"] == {"metric": NAME, "better": "higher", "value": 0.5}
    assert steps[1]["best"] is None
    assert steps[1]["early_stop/best"] == 0.5


def test_it_goes_on_where_it_was_saved(play_steps):
    part, other = alarm(), alarm()
    play_steps(part, {WATCH: [0.05]})

    other.load_run_state(part.run_state())

    assert play_steps(other, {WATCH: [0.05]})[0]["ended"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"low": None}, "are null: set at least one"),
        ({"high": 0.05}, "low is 0.1, above high, 0.05"),
    ],
)
def test_an_alarm_that_cannot_or_must_ring_is_refused(changed, told):
    with pytest.raises(ConfigError, match=told):
        alarm(**changed)


def test_a_mistyped_metric_is_told(play_steps):
    with pytest.warns(UserWarning, match=r"early_stop.watch is 'policy/entropie'"):
        play_steps(alarm(watch="policy/entropie"), {WATCH: [0.05]})
