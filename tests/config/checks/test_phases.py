"""Checks of phases: prerequisites of their parts, and metrics that parts wait for."""

import pytest
from omegaconf import OmegaConf

from rlcomp.config.checks.phases import check_prerequisites, check_watched_metrics
from rlcomp.config.compose import compose_config
from rlcomp.config.declarations import Declaration
from rlcomp.config.finding import messages
from rlcomp.config.flow_source import check_flow
from rlcomp.config.plan import Plan, read
from rlcomp.config.reader import Node
from rlcomp.config.resolve import check_plan, plan_of
from rlcomp.errors import ConfigError, ConfigErrors

PARTS = {
    "a.Save": Declaration("a.Save", begins=True),
    "a.Back": Declaration("a.Back", begins=True, earlier=("of",)),
    "a.Uses": Declaration("a.Uses", earlier=("store",)),
    "a.Store": Declaration("a.Store", begins=False),
}
SAVE = Node("save", "a.Save")
BACK = Node("back", "a.Back", {"of": SAVE})
STORE = Node("store", "a.Store")
USES = Node("uses", "a.Uses", {"store": STORE})
UNKNOWN = Node("unknown", "x.Gone")


class Phase:
    """Actions at its beginning, stages, and how many steps."""

    every = {}

    def __init__(self, *stages, begin=(), steps=1):
        self.on_begin, self.stages, self.steps = list(begin), list(stages), steps

    def lists(self):
        return [self.stages]


@pytest.fixture
def declared(monkeypatch):
    def declare(target):
        if target not in PARTS:
            raise ConfigError("it is not there")
        return PARTS[target]

    monkeypatch.setattr("rlcomp.config.declarations.read_declaration", declare)


def faults(**phases):
    return messages(check_prerequisites(Plan({}, {}, phases)))


@pytest.mark.usefixtures("declared")
def test_what_was_run_before_may_be_needed():
    assert faults(one=Phase(begin=[SAVE]), two=Phase(begin=[BACK])) == []
    assert faults(one=Phase(begin=[SAVE, BACK])) == []
    assert faults(one=Phase(STORE), two=Phase(USES)) == []
    assert faults(one=Phase(), two=Phase(UNKNOWN)) == []


@pytest.mark.usefixtures("declared")
def test_what_no_phase_before_has_run_is_told():
    (told,) = faults(one=Phase(begin=[BACK, SAVE]))
    assert "phases.one.on_begin: back" in told
    assert "needs save, but no earlier phase runs it" in told
    assert "phases.one.after=..." in told
    (told,) = faults(one=Phase(STORE, USES), two=Phase(USES))
    assert told.startswith("phases.one: uses")
    assert "phases.one.after=..." in told


@pytest.mark.usefixtures("declared")
def test_a_phase_of_no_steps_has_run_nothing():
    (told,) = faults(one=Phase(STORE, steps=0), two=Phase(USES))

    assert told.startswith("phases.two: uses")


@pytest.mark.usefixtures("declared")
def test_what_does_nothing_when_a_phase_begins_is_told():
    (told,) = faults(one=Phase(begin=[STORE]))
    assert "phases.one.on_begin: store (Store) does nothing when a phase begins" in told
    assert faults(one=Phase(begin=[UNKNOWN])) == []  # told by the check of arguments


PLATEAU = {"_target_": "components.early_stop.Plateau", "metric": "evaluation/sampled"}
ALARM = {"_target_": "components.early_stop.Alarm", "metric": "own/x", "watch": "own/y"}
NEXT_TOKEN = {"_target_": "components.evaluator.likelihood.NextTokenEvaluator"}
CONFIG = {
    "policy": {"_target_": "rlcomp.run.stages.Nothing"},
    "evaluation": NEXT_TOKEN,
    "second": {**NEXT_TOKEN, "name": "hard"},
    "early_stop": PLATEAU,
    "alarm": ALARM,
}


def told(every, **changed):
    phase = {"steps": 150, "stages": ["policy"], "every": every}
    plan, errors = read(OmegaConf.create({**CONFIG, **changed, "phases": {"rl": phase}}))
    assert errors == []
    return messages(check_watched_metrics(plan))


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
    plan, _ = read(OmegaConf.create({**CONFIG, "phases": {"rl": phase}}))

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
