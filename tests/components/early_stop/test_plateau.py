import pytest

from components.early_stop import Plateau
from rlcomp.metrics import record, recording
from rlcomp.testing import check_component

NAME = "evaluation/sampled"


def ends(steps):
    return [step["ended"] is not None for step in steps]


def test_it_keeps_the_contract():
    check_component(Plateau(metric=NAME))


def test_it_ends_after_so_many_evaluations_without_a_better_one(play_steps):
    part = Plateau(metric=NAME, patience=2)

    # Steps without an evaluation do not count; equal is not better.
    steps = play_steps(part, {NAME: [0.5, None, 0.4, 0.6, 0.6, None, 0.59]})

    assert ends(steps) == [False] * 6 + [True]
    assert steps[-1]["ended"] == (
        "plateau: evaluation/sampled was not higher than 0.6 in 2 evaluations"
    )
    assert [step.get("early_stop/waited") for step in steps] == [0, None, 1, 0, 1, None, 2]
    assert [step["early_stop/best"] for step in steps] == [0.5, 0.5, 0.5, 0.6, 0.6, 0.6, 0.6]


def test_the_best_step_is_kept_the_first_of_equal_ones(play_steps):
    steps = play_steps(Plateau(metric=NAME, patience=9), {NAME: [0.5, 0.4, 0.6, 0.6, 0.7]})

    told = {"metric": NAME, "better": "higher"}
    assert [step["best"] for step in steps] == [
        {**told, "value": 0.5},
        None,
        {**told, "value": 0.6},
        None,
        {**told, "value": 0.7},
    ]


def test_lower_may_be_better(play_steps):
    steps = play_steps(Plateau(metric=NAME, better="lower", patience=1), {NAME: [3.0, 2.0, 2.5]})

    assert ends(steps) == [False, False, True]
    assert steps[1]["best"] == {"metric": NAME, "better": "lower", "value": 2.0}
    assert "was not lower than 2 in 1" in steps[2]["ended"]


def test_an_equal_value_is_no_better_where_lower_is(play_steps):
    steps = play_steps(Plateau(metric=NAME, better="lower", patience=1), {NAME: [3.0, 3.0]})

    assert ends(steps) == [False, True]
    assert steps[1]["best"] is None


def test_small_steps_are_no_news_but_the_best_is_the_best(play_steps):
    # 0.5, then .08 and .16 above it: only the last is more than 0.1 better than 0.5.
    part = Plateau(metric=NAME, patience=3, min_delta=0.1)

    steps = play_steps(part, {NAME: [0.5, 0.58, 0.66, 0.7]})

    assert [step["early_stop/waited"] for step in steps] == [0, 1, 0, 1]
    assert [step["best"]["value"] for step in steps] == [0.5, 0.58, 0.66, 0.7]


def test_small_steps_down_are_no_news_where_lower_is_better(play_steps):
    # 2 is 1 below 3, no more than min_delta; 1.5 is.
    part = Plateau(metric=NAME, better="lower", patience=9, min_delta=1.0)

    steps = play_steps(part, {NAME: [3.0, 2.0, 1.5, 2.0]})

    assert [step["early_stop/waited"] for step in steps] == [0, 1, 0, 1]


def test_what_is_not_finite_was_not_measured(play_steps):
    steps = play_steps(Plateau(metric=NAME, patience=1), {NAME: [float("nan"), 0.5]})

    assert ends(steps) == [False, False]
    assert [step.get("early_stop/best") for step in steps] == [None, 0.5]


def test_a_phase_that_begins_knows_nothing_of_the_one_before(play_steps):
    part = Plateau(metric=NAME, patience=1)
    play_steps(part, {NAME: [0.9]})

    part.begin_phase()

    assert ends(play_steps(part, {NAME: [0.1]})) == [False]


def test_it_goes_on_where_it_was_saved(play_steps):
    part, other = Plateau(metric=NAME, patience=2), Plateau(metric=NAME, patience=2)
    play_steps(part, {NAME: [0.5, 0.4]})

    other.load_run_state(part.run_state())

    assert ends(play_steps(other, {NAME: [0.3]})) == [True]


@pytest.mark.parametrize("changed", [{"metric": "reward/mean"}, {"better": "lower"}])
def test_what_was_the_best_by_another_measure_is_no_mark(play_steps, changed):
    part, other = Plateau(metric=NAME), Plateau(**({"metric": NAME, "patience": 1} | changed))
    play_steps(part, {NAME: [0.5]})

    other.load_run_state(part.run_state())
    (step,) = play_steps(other, {"reward/mean": [0.4], NAME: [0.6]})

    # Neither .4 of another metric nor .6 where lower is better is worse than .5: each is a first.
    value = 0.4 if "metric" in changed else 0.6
    assert (step["early_stop/best"], step["early_stop/waited"]) == (value, 0)


def test_a_mistyped_metric_is_told_when_the_first_others_are_measured(play_steps):
    part = Plateau(metric="evaluation/sampeld")

    told = (
        "early_stop.metric is 'evaluation/sampeld', but the first step with any evaluation/... "
        "has not measured it; did you mean 'evaluation/sampled'"
    )
    with pytest.warns(UserWarning, match=told) as warned:
        play_steps(part, {NAME: [None, 0.5, 0.6]})
    assert len(warned) == 1


def test_a_metric_that_comes_later_than_others_of_its_concept_counts(play_steps):
    part = Plateau(metric="evaluation/hard", patience=1)

    with pytest.warns(UserWarning, match="evaluation/hard"):
        steps = play_steps(part, {NAME: [0.5, 0.5, 0.5], "evaluation/hard": [None, 0.4, 0.3]})

    assert ends(steps) == [False, False, True]
    assert steps[1]["best"]["value"] == 0.4


def test_a_metric_that_no_step_measures_is_told_at_the_end(play_steps):
    part = Plateau(metric="evalution/sampled")
    play_steps(part, {NAME: [0.5]})

    told = (
        "early_stop.metric is 'evalution/sampled', but no step of the phase has measured it; "
        "did you mean 'evaluation/sampled'"
    )
    with pytest.warns(UserWarning, match=told):
        part.finish_phase()


def test_what_the_end_of_the_phase_measures_may_be_the_best(play_steps):
    part = Plateau(metric=NAME)
    play_steps(part, {NAME: [0.5]})

    with recording() as ledger:
        record(NAME, 0.75)
        part.finish_phase()
    with recording() as again:
        record(NAME, 0.75)
        part.finish_phase()

    assert ledger.best == {"metric": NAME, "better": "higher", "value": 0.75}
    assert again.best is None
