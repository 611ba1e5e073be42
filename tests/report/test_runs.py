import fcntl
import json

import pytest

from rlcomp.errors import DataError
from rlcomp.report.runs import find_runs, finished, read_run

ROWS = [{"m": 0.5}, {"m": 1.0}]


def test_a_run_is_read_with_its_config_and_its_plan(make_run):
    run = read_run(make_run("a", ROWS, seed=3, overrides=["+lr=0.1"], lr=0.1))

    assert (run.state, run.seed, run.steps, run.planned) == ("finished", "3", 2, 2)
    assert run.values["lr"] == "0.1"
    assert run.overrides == {"lr": "0.1", "seed": "3"}
    assert run.periodic_names == {"evaluation"}


def test_runs_are_found_below_folders_and_by_patterns_each_once(make_run, tmp_path):
    for name in ("sweep/10", "sweep/9", "other"):
        make_run(name, ROWS)

    found = find_runs([str(tmp_path / "sweep"), str(tmp_path / "o*"), str(tmp_path)])

    assert [run.directory.name for run in found] == ["9", "10", "other"]


def test_finished_runs_are_given_by_seed_and_no_folder_has_none(make_run, tmp_path):
    make_run("arm/0", ROWS, seed=4)
    make_run("arm/1", ROWS, seed=2)
    make_run("arm/2", ROWS, seed=3, steps=9)

    found = finished(tmp_path / "arm")

    assert {seed: run.directory.name for seed, run in found.items()} == {"4": "0", "2": "1"}
    assert finished(tmp_path / "other") == {}


def test_checkpoints_of_a_run_are_no_runs(make_run):
    folder = make_run("a", ROWS)
    (folder / "checkpoints" / "step-2").mkdir(parents=True)
    (folder / "checkpoints" / "step-2" / "metrics.jsonl").write_text("")

    assert len(find_runs([str(folder)])) == 1


def test_a_config_is_found_in_the_newest_checkpoint_as_well(make_run):
    folder = make_run("a", ROWS, seed=5)
    (folder / "checkpoints" / "step-2").mkdir(parents=True)
    kept = folder / "checkpoints" / "step-2" / "config.yaml"
    (folder / ".hydra" / "config.yaml").rename(kept)

    assert read_run(folder).seed == "5"


def test_a_run_by_hand_has_no_config_and_counts(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"total": 1, "m": 0.5}\n')

    (run,) = find_runs([str(tmp_path)])

    assert (run.state, run.values, run.seed, run.steps) == ("finished", None, None, 1)


def test_a_failed_run_keeps_its_error(make_run):
    folder = make_run("a", ROWS, steps=9)
    (folder / "failure.json").write_text(json.dumps({"type": "DataError", "error": "no file"}))

    run = read_run(folder)

    assert (run.state, run.error, run.steps, run.planned) == (
        "failed",
        "DataError: no file",
        2,
        9,
    )


def test_a_run_that_ended_early_without_an_error_was_stopped(make_run):
    assert read_run(make_run("a", ROWS, steps=9)).state == "stopped"


def test_a_run_whose_directory_is_held_is_running(make_run):
    folder = make_run("a", ROWS, steps=9)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert read_run(folder).state == "running"
    assert read_run(folder).state == "stopped"


def test_a_run_that_was_stopped_before_its_first_step_has_started(make_run):
    assert read_run(make_run("a", [], steps=9)).state == "stopped"


def test_an_attempt_that_was_refused_does_not_count_as_finished(make_run):
    folder = make_run("a", ROWS)
    (folder / "failure.json").write_text(json.dumps({"type": "CheckpointError", "error": "no"}))

    assert (read_run(folder).state, read_run(folder).error) == ("failed", "CheckpointError: no")


def test_a_run_has_its_accepted_overrides(make_run):
    folder = make_run("a", ROWS, seed=7, overrides=["lr=2"], choices={"recipe": "new"}, lr=2)
    (folder / "run.yaml").write_text(
        "config: {seed: 3, lr: 1, twice: '${lr}', phases: {rl: {steps: '${lr}'}}}\n"
        "overrides: [lr=1, seed=3]\n"
        "choices: {recipe: old}\n"
    )

    run = read_run(folder)

    assert (run.seed, run.values["lr"], run.values["twice"], run.planned) == ("3", "1", "${lr}", 1)
    assert (run.overrides, run.choices) == ({"lr": "1", "seed": "3"}, {"recipe": "old"})


def test_what_is_taken_away_is_told(make_run):
    run = read_run(make_run("a", ROWS, overrides=["~phases.warm_start", "~b=null"]))

    assert run.overrides == {"phases.warm_start": "removed", "b": "removed", "seed": "0"}


def test_the_jobs_of_a_sweep_without_a_directory_are_found(make_run, tmp_path):
    make_run("0", ROWS, overrides=["lr=1", "steps=2"])
    (tmp_path / "multirun.yaml").write_text(
        "hydra:\n"
        "  sweeper: {_target_: x.BasicSweeper, params: {seed: '0,1'}}\n"
        "  overrides: {task: ['lr=1,2', steps=2]}\n"
    )
    (tmp_path / "0" / ".hydra" / "overrides.yaml").write_text("[seed=0, lr=1, steps=2]")

    found = find_runs([str(tmp_path)])

    assert [(run.directory.name, run.state) for run in found[1:]] == [
        ("job 1", "never started"),
        ("job 2", "never started"),
        ("job 3", "never started"),
    ]
    assert [dict(run.overrides) for run in found[1:]] == [
        {"seed": "0", "lr": "2"},
        {"seed": "1", "lr": "1"},
        {"seed": "1", "lr": "2"},
    ]


def test_a_line_that_is_being_written_is_left_out(make_run):
    folder = make_run("a", ROWS, steps=9)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"total": 3, "m": 0.')

    assert read_run(folder).steps == 2


def test_a_broken_line_is_named(make_run):
    folder = make_run("a", ROWS)
    text = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text("nonsense\n" + text)

    with pytest.raises(DataError, match=r"metrics\.jsonl, line 1: .*take the line out"):
        read_run(folder)


WHOLE = b'{"total": 1, "phase": "rl", "step": 1, "reward/mean": 0.5}\n'


@pytest.mark.parametrize(
    "line",
    [
        b'{"total": 2, "phase": "rl\xff"}',
        b"[" * 100_000,
        b'{"total": ' + b"9" * 5000 + b"}",
        b'{"phase": "rl", "step": 1}',
        b'{"total": "x", "phase": "rl"}',
        b'{"total": null, "phase": "rl"}',
        b'{"total": 1e999, "phase": "rl"}',
        b'{"total": 0, "phase": "rl"}',
        b'{"total": 2, "phase": 3}',
        b'{"total": 2, "phase": "rl", "reward/mean": "high"}',
        b'{"total": 2, "phase": "rl", "reward/mean": 1e999}',
        b'{"total": 2, "phase": "rl", "reward/mean": NaN}',
        b'{"total": 2, "phase": "rl", "reward/mean": ' + b"9" * 400 + b"}",
    ],
)
def test_a_damaged_line_of_metrics_is_one_message_that_names_it(make_run, line):
    folder = make_run("a", [])
    (folder / "metrics.jsonl").write_bytes(WHOLE + line + b"\n" + WHOLE)

    with pytest.raises(DataError, match=r"metrics.jsonl, line 2: .*take the line out") as error:
        read_run(folder)

    assert len(str(error.value)) < 500


def test_a_metric_that_was_not_finite_is_null(make_run):
    folder = make_run("a", [{"reward/mean": None}])

    assert read_run(folder).rows[0]["reward/mean"] is None


def test_a_directory_that_is_not_there_is_named_with_the_nearest(make_run, tmp_path):
    make_run("sweep", ROWS)

    with pytest.raises(
        DataError, match=r"sweeps: there is no such directory; did you mean .*sweep"
    ):
        find_runs([str(tmp_path / "sweeps")])


def test_folders_inside_a_run_are_not_suggested(make_run):
    folder = make_run("a", ROWS)

    with pytest.raises(DataError, match=r"there is no such directory \(known: none\)"):
        find_runs([str(folder / "hydra")])


def test_a_file_is_refused_as_a_file(make_run):
    with pytest.raises(DataError, match=r"metrics\.jsonl is a file: name the directory"):
        find_runs([str(make_run("a", ROWS) / "metrics.jsonl")])


def test_of_files_the_whole_line_names_the_runs(make_run):
    a, b = make_run("a", ROWS), make_run("b", ROWS)

    with pytest.raises(DataError, match=rf"of a sweep, rlcomp-report {a} {b}$"):
        find_runs([str(a / "metrics.jsonl"), str(b / "metrics.jsonl")])


def test_a_directory_without_runs_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no run in it"):
        find_runs([str(tmp_path)])
