"""Searches in which a run is a formula."""

import json
import math
from pathlib import Path

import pytest

pytest.importorskip("optuna")

from rlcomp.errors import ConfigError, DataError, Interrupted
from rlcomp.report.runs import find_runs
from rlcomp.sweep.search import Space

# Each composes a whole run, and more than one.
pytestmark = pytest.mark.slow

RATE = "learner.optimizer.lr=tag(log,interval(1e-5,1e-1))"


@pytest.fixture
def search(monkeypatch, tmp_path, rlcomp):
    """Runs a search whose runs record what ``formula`` makes of their config; gives its record."""
    from rlcomp.run import launch

    directory = tmp_path / "all"

    def run(formula, *words, n_trials=6, code=0, **settings):
        def written(config, plan, watch, leaves):
            value = formula(config)
            row = {"total": 1, "phase": "rl", "step": 1, "score": value}
            Path(config.directory, "metrics.jsonl").write_text(json.dumps(row) + "\n")

        monkeypatch.setattr(launch, "launch", written)
        own = {"metric": "score", "n_trials": n_trials} | settings
        given = [f"hydra.sweeper.{name}={value}" for name, value in own.items()]
        assert (
            rlcomp("-m", "hydra/sweeper=optuna", *given, *words, f"directory={directory}") == code
        )
        file = directory / "search.json"
        return json.loads(file.read_text())["trials"] if file.is_file() else None

    run.directory = directory
    return run


def peak(config):
    """Best at 1e-3, where it is 0."""
    return -((math.log10(config.learner.optimizer.lr) + 3) ** 2)


def rates(trials):
    words = (job[0] for trial in trials for job in trial["jobs"])
    return [float(word.removeprefix("learner.optimizer.lr=")) for word in words]


@pytest.mark.slow
def test_a_search_tries_so_many_points_of_its_range_and_names_the_best(search, capsys):
    trials = search(peak, RATE, n_trials=8)

    assert len(trials) == 8
    assert all(1e-5 <= rate <= 1e-1 for rate in rates(trials))
    assert len(set(rates(trials))) == 8
    best = max(trials, key=lambda trial: trial["value"])
    told = capsys.readouterr().out.splitlines()
    assert told[-2] == "8 trials, 0 failed"
    assert told[-1].startswith(
        f"best trial {best['trial']}: score {best['value']:.4g} with learner"
    )


def test_a_value_is_that_of_the_run_at_its_point(search):
    trials = search(peak, RATE, n_trials=3)

    expected = [-((math.log10(rate) + 3) ** 2) for rate in rates(trials)]
    assert [trial["value"] for trial in trials] == pytest.approx(expected)


def test_the_direction_is_what_was_asked_for(search, capsys):
    trials = search(peak, RATE, direction="minimize")

    worst = min(trials, key=lambda trial: trial["value"])
    assert f"best trial {worst['trial']}:" in capsys.readouterr().out


@pytest.mark.slow
def test_the_same_seed_searches_the_same_points_and_guided_ones_come_closer(search):
    trials = search(peak, RATE, n_trials=40)

    away = [abs(math.log10(rate) + 3) for rate in rates(trials)]
    # Uniform in the logarithm over [-5, -1], the mean distance to -3 is 1.
    assert sum(away[:10]) / 10 > 0.5
    assert sum(away[-10:]) / 10 < 0.5


@pytest.mark.slow
def test_a_failed_trial_is_reported_and_the_search_continues(search, capsys):
    def half(config):
        if config.learner.optimizer.lr > 1e-3:
            raise DataError("too fast")
        return peak(config)

    trials = search(half, RATE, n_trials=12, code=1)  # not 0: some steps were not done

    failed = [trial["value"] is None for trial in trials]
    assert failed == [rate > 1e-3 for rate in rates(trials)]
    assert 0 < sum(failed) < 12
    said = capsys.readouterr()
    assert f"12 trials, {sum(failed)} failed" in said.out
    assert said.err.count("too fast") == sum(failed)
    assert f"rlcomp: {sum(failed)} of 12 trials failed, each with a failure.json" in said.err
    states = [run.state for run in find_runs([str(search.directory)])]
    assert states.count("failed") == sum(failed)


def test_when_every_trial_fails_that_is_an_error(search, capsys):
    def broken(config):
        raise DataError("no data")

    search(broken, RATE, n_trials=2, code=2)

    assert "all 2 trials failed: see rlcomp-report" in capsys.readouterr().err


def test_a_value_that_is_no_number_fails_its_trial(search):
    trials = search(
        lambda config: None if config.seed else 1.0, "learner.epochs=1,2", "seed=0,1", n_trials=1,
        code=2,
    )  # fmt: skip

    assert [trial["value"] for trial in trials] == [None]


@pytest.mark.slow
def test_a_trial_runs_every_seed_and_their_mean_counts(search):
    trials = search(
        lambda config: float(config.seed), "learner.epochs=1,2", "seed=1,2,6", n_trials=2
    )

    assert [trial["value"] for trial in trials] == [3.0, 3.0]
    assert [[job[-1] for job in trial["jobs"]] for trial in trials] == [
        ["seed=1", "seed=2", "seed=6"]
    ] * 2
    assert {run.name for run in search.directory.iterdir() if run.is_dir()} == set("012345")


@pytest.mark.slow
def test_options_and_whole_numbers_are_searched_as_well(search):
    trials = search(
        lambda c: 1.0, "loss=grpo,policy", "rollout.group_size=int(interval(2,9))", n_trials=9
    )

    words = [dict(word.split("=") for word in trial["jobs"][0][:2]) for trial in trials]
    assert {word["loss"] for word in words} == {"grpo", "policy"}
    assert {int(word["rollout.group_size"]) for word in words} <= set(range(2, 10))


@pytest.mark.filterwarnings("ignore:.*it changes nothing")
def test_a_search_removes_keys(search):
    trials = search(lambda config: float("rl" in config.phases), "~phases.rl", RATE, n_trials=2)

    assert [trial["value"] for trial in trials] == [0.0, 0.0]


@pytest.mark.slow
def test_a_search_in_batches_tries_as_many(search):
    assert len(search(peak, RATE, n_trials=5, n_jobs=2)) == 5


def test_a_stopped_search_goes_on_with_the_trial_it_was_stopped_in(search):
    ran = []

    def stopped(config):
        ran.append((Path(config.directory).name, float(config.learner.optimizer.lr)))
        if len(ran) == 3:
            raise Interrupted("stopped after step 1")
        return peak(config)

    search(stopped, RATE, n_trials=4, code=75)
    trials = search(stopped, RATE, n_trials=4)

    assert [name for name, _ in ran] == ["0", "1", "2", "2", "3"]
    assert ran[2] == ran[3]
    assert rates(trials) == [rate for _, rate in [*ran[:2], *ran[3:]]]
    assert len(set(rates(trials))) == 4
    assert None not in [trial["value"] for trial in trials]


def test_another_search_in_the_same_directory_is_refused(search, capsys):
    search(peak, RATE, n_trials=1)

    search(peak, RATE, "learner.epochs=1,2", n_trials=2, code=2)

    assert "and another search is in it" in capsys.readouterr().err


def test_a_metric_that_runs_do_not_record_stops_the_search(search, capsys):
    search(peak, RATE, metric="scores", code=2)

    message = capsys.readouterr().err
    assert "hydra.sweeper.metric is 'scores'" in message
    assert "did you mean 'score'?" in message


@pytest.mark.parametrize("setting", ["n_trials=0", "direction=up"])
def test_a_setting_that_cannot_be_is_refused(rlcomp, tmp_path, capsys, setting):
    words = ["hydra/sweeper=optuna", f"hydra.sweeper.{setting}", RATE, f"directory={tmp_path}"]

    assert rlcomp("-m", *words) == 2

    assert setting.split("=")[0] in capsys.readouterr().err


def test_without_a_range_there_is_nothing_to_search():
    with pytest.raises(ConfigError, match="there is nothing to search"):
        Space(["loss=grpo", "seed=0,1"])


def test_seeds_are_listed_not_searched():
    with pytest.raises(ConfigError, match="seed is an interval"):
        Space(["loss=grpo,policy", "seed=interval(0,9)"])
