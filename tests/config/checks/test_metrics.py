"""Parts in ``every`` that wait for a metric: whether what records it is due before them."""

import pytest
from omegaconf import OmegaConf

from rlcomp.config.checks.metrics import check_watched
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.flow_source import check_flow
from rlcomp.config.plan import read
from rlcomp.config.resolve import check_plan, plan_of
from rlcomp.errors import ConfigErrors

PLATEAU = {"_target_": "components.early_stop.Plateau", "metric": "evaluation/sampled"}
ALARM = {"_target_": "components.early_stop.Alarm", "metric": "own/x", "watch": "own/y"}
NEXT_TOKEN = {"_target_": "components.evaluator.likelihood.NextTokenEvaluator"}
PARTS = {
    "policy": {"_target_": "rlcomp.run.stages.Nothing"},
    "evaluation": NEXT_TOKEN,
    "second": {**NEXT_TOKEN, "name": "hard"},
    "early_stop": PLATEAU,
    "alarm": ALARM,
}


def told(every, **changed):
    phase = {"steps": 150, "stages": ["policy"], "every": every}
    plan, errors = read(OmegaConf.create({**PARTS, **changed, "phases": {"rl": phase}}))
    assert errors == []
    return messages(check_watched(plan))


@pytest.mark.parametrize(
    ("every", "changed"),
    [
        ({"evaluation": 25, "early_stop": 1}, {}),
        ({"evaluation": 25, "early_stop": 5}, {}),
        ({"evaluation": 25, "early_stop": 25}, {}),
        # Which stage records it is not known before it runs.
        ({"alarm": 1, "evaluation": 1}, {}),
        ({"early_stop": 1}, {"early_stop": {**PLATEAU, "metric": "policy/entropy"}}),
    ],
)
def test_a_metric_that_may_be_seen_is_no_mistake(every, changed):
    assert told(every, **changed) == []


def test_what_comes_behind_is_never_seen():
    (error,) = told({"early_stop": 2, "evaluation": 2})

    assert error == (
        "early_stop.metric is 'evaluation/sampled', but phases.rl.every runs evaluation behind "
        "early_stop: take early_stop out ('~phases.rl.every.early_stop') and put it in again "
        "(+phases.rl.every.early_stop=2), so that it comes last"
    )


@pytest.mark.parametrize(("evaluation", "own"), [(25, 7), (25, 50), (1, 2)])
def test_a_part_that_runs_at_other_steps_misses_it(evaluation, own):
    (error,) = told({"evaluation": evaluation, "early_stop": own})

    assert error == (
        f"early_stop.metric is 'evaluation/sampled', but phases.rl.every runs evaluation every "
        f"{evaluation} steps and early_stop every {own}, which misses most of them; set "
        "phases.rl.every.early_stop=1"
    )


def test_an_evaluation_that_does_not_run_measures_nothing():
    (error,) = told({"early_stop": 1})

    assert error == (
        "early_stop.metric is 'evaluation/sampled', but phases.rl does not run evaluation: set "
        "+phases.rl.every.evaluation=25, or name another metric"
    )


def test_two_early_stops_of_a_phase_are_refused_by_name():
    phase = {"steps": 9, "stages": ["policy"], "every": {"early_stop": 1, "alarm": 1}}
    plan, _ = read(OmegaConf.create({**PARTS, "phases": {"rl": phase}}))

    assert messages(check_flow(plan)) == [
        "phases.rl: 'early_stop' is counted by early_stop and by alarm: keep one (~alarm)"
    ]


def test_a_phase_that_the_recipe_does_not_have_is_told_as_such():
    with pytest.raises(ConfigErrors) as error:
        plan_of(compose_config(["recipe=sft", "+early_stop=plateau", "directory=x"]))

    told = (
        "phases.rl has neither steps nor stages: this recipe has no such phase (phases: warm_start)"
    )
    assert str(error.value).startswith(told)
    assert "phases.rl.steps is None" not in str(error.value)


def test_a_part_goes_by_the_name_that_its_metrics_have():
    (error,) = told({"alarm": 1}, alarm={**ALARM, "watch": "hard/nats"})

    assert error.startswith("alarm.watch is 'hard/nats', but phases.rl does not run second")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["early_stop=plateau"], ""),
        (["early_stop=alarm"], ""),
        (["early_stop=plateau", "~phases.rl.every.evaluation"], "does not run evaluation"),
        (["early_stop=plateau", "phases.rl.every.early_stop=7"], "every 25 steps"),
    ],
)
def test_the_options_as_they_are_composed(words, expected):
    plan, _ = read(compose_config(["recipe=grpo", "directory=x", *words]))

    found = check_plan(plan)

    assert len(found) == bool(expected)
    assert all(expected in error for error in found)
