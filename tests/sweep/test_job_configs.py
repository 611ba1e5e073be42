"""Sweeps over recipes whose configs have different keys. A run only notes its config."""

import json
import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from rlcomp.files.run_record import read_run_record
from rlcomp.report.runs import find_runs
from rlcomp.sweep.jobs import requested_overrides, swept_keys


@pytest.fixture
def swept(monkeypatch, tmp_path, rlcomp):
    """Runs a sweep; gives the exit code and the configs of the jobs that came to run."""
    from rlcomp.run import launch

    made = []
    monkeypatch.setattr(launch, "launch", lambda config, *_: made.append(config))

    def run(*words):
        code = rlcomp("-m", *words, f"directory={tmp_path / 'all'}")
        return code, made

    return run


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "a base"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def test_every_job_gets_overrides_unknown_to_the_default_recipe(swept, base, tmp_path):
    code, made = swept("recipe=rpt,rlp", f"base={base}", "position=random")

    assert code == 0
    assert [config.base for config in made] == [str(base), str(base)]
    kept = OmegaConf.load(tmp_path / "all" / "multirun.yaml").hydra.overrides.task
    assert {f"base={base}", "position=random"} <= {*kept}
    # What is the same in all jobs is not varied.
    assert swept_keys(requested_overrides(tmp_path / "all")) == ["recipe"]
    given = read_run_record(tmp_path / "all" / "0").overrides
    assert any(word.startswith("base=") for word in given)
    assert all(run.state == "stopped" for run in find_runs([str(tmp_path / "all")]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "path", "values"),
    [
        (["recipe=bapo,areal_decoupled", "rollout.staleness=3"], "rollout.staleness", [3, 3]),
        (
            ["recipe=ppo,vapo", "phases.value_warm_up.steps=5"],
            "phases.value_warm_up.steps",
            [5, 5],
        ),
        (["recipe=ppo,vapo", "~phases.value_warm_up"], "phases.value_warm_up", [None, None]),
        (["recipe=ppo,vapo", "+advantage.x=[1,{a: 'b c'}]"], "never", []),
        (
            ["recipe=ppo,vapo", "+mine=[1,{a: 'b c'}]", "+curriculum.of=${mine}", "seed=3"],
            "mine",
            [[1, {"a": "b c"}]] * 2,
        ),
    ],
)
def test_a_value_reaches_every_job_unchanged(swept, words, path, values):
    _, made = swept(*words)

    assert [OmegaConf.select(config, path) for config in made] == values


@pytest.mark.filterwarnings("ignore:.*will be refused")
def test_a_job_with_an_unknown_override_fails_alone(swept, tmp_path, capsys):
    code, made = swept("recipe=grpo,areal_decoupled,bapo", "rollout.staleness=3")

    assert code == 2
    assert [config.rollout.staleness for config in made] == [3, 3]
    told = json.loads((tmp_path / "all" / "0" / "failure.json").read_text())["error"]
    assert told.startswith("rollout.staleness is not in the config")
    assert f"rlcomp: job 0: {told}" in capsys.readouterr().err
    states = [run.state for run in find_runs([str(tmp_path / "all")])]
    assert states == ["failed", "stopped", "stopped"]


def test_an_override_unknown_to_all_jobs_is_refused_once_first(swept, tmp_path, capsys):
    code, made = swept("recipe=bapo,areal_decoupled", "seed=0,1", "rollout.stalenes=3")

    assert (code, made) == (2, [])
    (told,) = capsys.readouterr().err.strip().splitlines()
    assert told.startswith(
        "rlcomp: rollout.stalenes is not in the config; did you mean 'staleness'?"
    )
    assert not (tmp_path / "all" / "0").exists()


def test_an_option_that_is_not_there_is_refused_before_the_first_job(swept, capsys):
    code, made = swept("recipe=grpo,gropo", "seed=0,1")

    assert (code, made) == (2, [])
    (told,) = capsys.readouterr().err.strip().splitlines()
    assert told.startswith("rlcomp: recipe=gropo: there is no such option; did you mean 'grpo'?")


def test_a_search_passes_it_as_well(swept, monkeypatch, tmp_path):
    pytest.importorskip("optuna")
    code, made = swept(
        "hydra/sweeper=optuna",
        "hydra.sweeper.n_trials=2",
        "recipe=bapo,areal_decoupled",
        "rollout.staleness=3",
    )

    # The runs record nothing, so the search stops at the first.
    assert code == 2
    assert [config.rollout.staleness for config in made] == [3]


@pytest.mark.slow
def test_jobs_in_processes_of_their_own_fail_by_themselves(tmp_path):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    words = ["recipe=grpo,areal_decoupled", "rollout.staleness=3", "prompts.batch_size=0"]
    command = [sys.executable, "-m", "rlcomp", "-m", "hydra/launcher=joblib", *words]

    done = subprocess.run([*command, "directory=all"], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 2, done.stderr
    told = [
        json.loads((tmp_path / "all" / job / "failure.json").read_text())["error"] for job in "01"
    ]
    assert "rollout.staleness is not in the config" in told[0]
    assert "rollout.staleness" not in told[1]
    assert "prompts.batch_size is 0" in told[1]


def test_the_grid_may_be_imported_before_hydra_looks_for_its_plugins():
    program = (
        "import rlcomp.sweep.grid as grid\n"
        "from hydra.core.plugins import Plugins\n"
        "Plugins.instance()\n"
        "from hydra._internal.core_plugins.basic_sweeper import BasicSweeper\n"
        "assert issubclass(grid.Grid, BasicSweeper)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
