"""One kind of folder where another is wanted, and words in another order: the line that works."""

import json

import pytest

from rlcomp.errors import CheckpointError, ConfigError, DataError, UserError


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with two runs, a model and a file."""
    for name in ("a", "lora"):
        (tmp_path / "runs" / name / "checkpoints").mkdir(parents=True)
        (tmp_path / "runs" / name / "metrics.jsonl").write_text(json.dumps({"total": 1}) + "\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "file.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("path", "told"),
    [
        (
            "model",
            "it is a folder of transformers.* rlcomp-evaluate model read it.*, and no run: na",
        ),
        ("runs", "runs: it is a folder of runs, runs/a, runs/lora: name a run's directory"),
        ("file.jsonl", "it is a file: name a run's directory"),
        ("nothere", "there is no such folder: name"),
    ],
)
def test_a_checkpoint_is_looked_for_where_none_is(path, told):
    from pathlib import Path

    from rlcomp.checkpoint.reader import open_checkpoint

    with pytest.raises(CheckpointError, match=told):
        open_checkpoint(Path(path))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("runs/a/checkpoints", r"a run or of a sweep, runs/a$"),
        ("runs/a/metrics.jsonl", r"metrics.jsonl is a file: .* of a sweep, rlcomp-report runs/a$"),
        ("runs/nothere", r"there is no such directory \(known: a, lora\)$"),
        ("runs/loar", r"there is no such directory; did you mean 'lora'\?"),
        ("rums/a", r"there is no such directory, and no rums either$"),
    ],
)
def test_a_report_of_what_is_no_run(path, told):
    from rlcomp.report.runs import find_runs

    with pytest.raises(DataError, match=told):
        find_runs([path])


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("program", "words", "told"),
    [
        ("export", ["runs/a"], "^NEW_FOLDER is missing: rlcomp-export runs/a exported$"),
        ("export", [], "^RUN and NEW_FOLDER are missing: rlcomp-export runs/mine exported$"),
        ("export", ["--merge", "runs/a"], "missing: rlcomp-export --merge runs/a exported$"),
        ("sample", ["runs/a"], r"^PROMPT is missing: rlcomp-sample runs/a '2\+2='$"),
        ("sample", ["2+2=", "runs/a"], r"before the prompts: rlcomp-sample runs/a '?2\+2='?$"),
    ],
)
def test_words_that_are_missing_or_in_another_order(program, words, told, monkeypatch):
    import importlib

    app = importlib.import_module(f"rlcomp.cli.{program}")._app
    monkeypatch.setattr("sys.argv", [f"rlcomp-{program}", *words])
    with pytest.raises(UserError, match=told):
        app()


def test_a_baseline_may_be_named_by_a_run_of_its_group(tmp_path):
    from rlcomp.report.groups import find_baseline, group_runs
    from rlcomp.report.runs import Run

    long = "x" * 70
    runs = [
        Run(tmp_path / name, "finished", values={"seed": "0", long: name}, rows=[{"total": 1}])
        for name in ("a", "b")
    ]
    for run in runs:
        run.directory.mkdir()
        (run.directory / "metrics.jsonl").touch()
    groups = group_runs(runs)

    assert find_baseline(groups, str(tmp_path / "b")).runs == (runs[1],)
    with pytest.raises(ConfigError, match=r"no group; name a run of the group: /.*a \(x{60}…\), "):
        find_baseline(groups, "nothing")
