"""Where a run may begin at zero, and that the record of another is never lost over it."""

import hashlib
import json
import os
import shutil

import pytest
from omegaconf import OmegaConf

from rlcomp.checkpoint.manifest import write_manifest
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.cli.overrides import check_overrides
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import CheckpointError, ConfigError, Interrupted, RlcompWarning
from rlcomp.files.run_directory import archive_run, check_links
from rlcomp.report.runs import find_runs
from rlcomp.run.launch import launch
from rlcomp.run.resume import checkpoint_to_resume
from rlcomp.trackers.tracker import JsonLines


def config_of(directory, **more):
    whole = {"seed": 0, "directory": str(directory), "resume": "auto", "overwrite": False, "lr": 1}
    whole["phases"] = {"one": {"steps": 3}}
    return OmegaConf.create({**whole, **more})


def checkpoint_in(directory, **more):
    text = OmegaConf.to_yaml(config_of(directory, **more))
    return Checkpoint(directory=str(directory / "checkpoints"), keep=9, config=text)


def resumed(directory, **more):
    return checkpoint_to_resume(config_of(directory, **more), checkpoint_in(directory))


@pytest.fixture
def run(tmp_path):
    """A run of three steps, saved after each; a sample in the second."""
    lines = JsonLines(directory=str(tmp_path / "run"))
    lines.start({"one": 3}, 0)
    for total in (1, 2, 3):
        lines.log(total, "one", total, {"x": total}, [{"text": "a"}] if total == 2 else [])
        place = {"phase": 0, "step": total, "total": total, "seed": 0}
        place["trackers"] = {"json_lines": lines.position()}
        checkpoint_in(tmp_path / "run").save({}, place)
    return tmp_path / "run"


@pytest.fixture
def recorded(run):
    """A run that was killed before its first checkpoint."""
    shutil.rmtree(run / "checkpoints")
    return run


def test_a_run_begins_at_zero_where_nothing_is(tmp_path):
    assert resumed(tmp_path) is None
    assert resumed(tmp_path, resume="never") is None


def test_an_empty_record_is_none(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")

    assert resumed(tmp_path) is None


def test_a_line_that_was_only_begun_is_a_record(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("{")

    with pytest.raises(CheckpointError, match="holds the record of a run"):
        resumed(tmp_path)


@pytest.mark.parametrize("resume", ["auto", "never"])
def test_a_record_without_checkpoints_is_not_overwritten(recorded, resume):
    told = r"record of a run without a checkpoint .*: choose another directory, or overwrite=true"
    with pytest.raises(CheckpointError, match=told):
        resumed(recorded, resume=resume)


def test_nor_by_a_run_that_saves_nothing(recorded):
    with pytest.raises(CheckpointError, match="holds the record of a run"):
        checkpoint_to_resume(config_of(recorded), None)


def test_a_run_that_saves_nothing_does_not_begin_beside_the_checkpoints_of_another(run):
    with pytest.raises(CheckpointError, match="lr was 1, is 2"):
        checkpoint_to_resume(config_of(run, lr=2), None)


def test_what_must_go_on_says_where_nothing_is(recorded):
    with pytest.raises(CheckpointError, match=r"resume is must, but .* no checkpoint in .*/checkp"):
        resumed(recorded, resume="must")


def test_never_finds_checkpoints_that_cannot_be_read_as_well(run):
    for path in (run / "checkpoints").iterdir():
        (path / "state.json").unlink()

    with pytest.raises(CheckpointError, match=r"resume is never, but .*step-00000003 is there: ch"):
        resumed(run, resume="never")


@pytest.mark.parametrize("resume", ["auto", "never"])
def test_overwriting_begins_at_zero(run, resume):
    assert resumed(run, resume=resume, overwrite=True) is None


def test_overwriting_what_is_to_go_on_is_refused(run, tmp_path):
    with pytest.raises(ConfigError, match="resume is must: leave one"):
        resumed(run, resume="must", overwrite=True)
    with pytest.raises(ConfigError, match=r"would move .*step-00000001: leave it out"):
        resumed(run, resume=f"{run}/checkpoints/step-00000001", overwrite=True)
    shutil.copytree(run, tmp_path / "other")
    start = f"{tmp_path}/other/checkpoints/step-00000001"
    assert str(resumed(run, resume=start, overwrite=True).path) == start


def test_a_path_is_not_continued_among_the_checkpoints_of_another_run(run, tmp_path):
    shutil.copytree(run, tmp_path / "other")
    (run / "metrics.jsonl").unlink()

    with pytest.raises(CheckpointError, match="holds the record of another run: choose another"):
        resumed(run, resume=f"{tmp_path}/other")


def test_what_is_set_aside_is_all_there_and_no_run_of_a_report(run):
    (run / "notes.txt").write_text("mine")
    (run / "run.yaml").write_text("config: {}")
    record = (run / "metrics.jsonl").read_bytes()
    wandb = run / "wandb"
    wandb.mkdir()

    old = archive_run(run, run / "checkpoints")

    assert old == run / "overwritten" / "1"
    assert sorted(path.name for path in old.iterdir()) == [
        "checkpoints",
        "metrics.jsonl",
        "run.yaml",
        "samples.jsonl",
    ]
    assert sorted(path.name for path in run.iterdir()) == ["notes.txt", "overwritten", "wandb"]
    assert (old / "metrics.jsonl").read_bytes() == record
    assert archive_run(run, run / "checkpoints") is None
    shutil.copy(old / "metrics.jsonl", run)
    assert [found.directory for found in find_runs([str(run)])] == [run]
    assert archive_run(run, run / "checkpoints") == run / "overwritten" / "2"


@pytest.mark.parametrize("place", [".", "../shared_by_many"])
def test_of_a_directory_of_checkpoints_only_what_a_run_wrote_is_set_aside(run, place):
    home = run / place
    home.mkdir(exist_ok=True)
    for found in [*(run / "checkpoints").iterdir()]:
        shutil.move(found, home / found.name)
    (run / "checkpoints").rmdir()
    for name in ("best", "dump-00000002", "unreadable-step-00000001", "models"):
        (home / name).mkdir()
    (home / "steps.txt").write_text("theirs")

    old = archive_run(run, home)

    assert {path.name for path in home.iterdir()} - {"overwritten"} == {"models", "steps.txt"}
    assert {path.name for path in (old / "checkpoints").iterdir()} == {
        "best",
        "dump-00000002",
        "unreadable-step-00000001",
        "step-00000001",
        "step-00000002",
        "step-00000003",
    }
    assert (old / "metrics.jsonl").is_file()


def test_checkpoints_behind_a_link_are_set_aside_and_the_link_stays(run, tmp_path):
    (run / "checkpoints").rename(tmp_path / "disk")
    (run / "checkpoints").symlink_to(tmp_path / "disk")

    old = archive_run(run, run / "checkpoints")

    assert [*(tmp_path / "disk").iterdir()] == []
    assert (run / "checkpoints").is_symlink()
    assert len([*(old / "checkpoints").iterdir()]) == 3
    check_links(run)  # such a link is usual


@pytest.mark.parametrize(
    "name", [".hydra", "rlcomp.log", "metrics.jsonl", "samples.jsonl", "ended.jsonl", "overwritten"]
)
@pytest.mark.parametrize("job", [".", "3"])
def test_a_link_where_a_run_writes_is_refused(tmp_path, name, job):
    (tmp_path / job).mkdir(exist_ok=True)
    (tmp_path / job / name).symlink_to(tmp_path / "theirs")

    with pytest.raises(ConfigError, match=rf"{name} is a link: .*; delete the link"):
        check_links(tmp_path)
    with pytest.raises(ConfigError, match="is a link"):
        check_overrides([f"directory={tmp_path}"], [])


@pytest.mark.parametrize("name", ["rlcomp.log", "metrics.jsonl", "ended.jsonl"])
def test_a_fifo_where_a_run_writes_is_refused(tmp_path, name):
    os.mkfifo(tmp_path / name)

    with pytest.raises(ConfigError, match=rf"{name} is neither a file nor a folder"):
        check_links(tmp_path)


def test_a_link_among_the_files_of_hydra_is_refused_by_a_run_too(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    (tmp_path / "run" / ".hydra").mkdir(parents=True)
    (tmp_path / "run" / ".hydra" / "config.yaml").symlink_to(theirs)
    config = compose_config([f"directory={tmp_path / 'run'}"])

    with pytest.raises(ConfigError, match=r"config\.yaml is a link"):
        launch(config, plan_of(config))
    assert theirs.read_text() == "precious"


def cut(file, lines):
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:lines]))


def test_a_record_that_lost_its_end_is_refused_and_goes_on_from_where_it_reaches(run):
    cut(run / "metrics.jsonl", 2)
    older = run / "checkpoints" / "step-00000002"

    with pytest.raises(CheckpointError) as told:
        resumed(run)

    words = str(told.value)
    assert "step-00000003: " in words
    assert "metrics.jsonl has " in words
    assert f"a part of the record was lost; continue from an older checkpoint, resume={older}," in (
        words
    )
    assert resumed(run, resume=str(older)).path == older


@pytest.mark.parametrize("file", ["metrics.jsonl", "samples.jsonl"])
def test_a_record_that_is_gone_is_refused(run, file):
    (run / file).unlink()

    with pytest.raises(CheckpointError, match=rf"{file} has 0 bytes.*restore the record"):
        resumed(run)
    with pytest.raises(CheckpointError, match=rf"{file} has 0 bytes"):
        resumed(run, resume=str(run))


def test_samples_are_checked_as_far_as_the_checkpoint_tells_of_them(run):
    (run / "samples.jsonl").unlink()
    first = run / "checkpoints" / "step-00000001"  # there were none yet

    assert resumed(run, resume=str(first)).path == first


# The same length, another end.
OTHERS = {
    "a step before": (b'"total": 3', b'"total": 2', "has step 2 where the checkpoint has step 3"),
    "a step behind": (b'"total": 3', b'"total": 4', "has step 4 where the checkpoint has step 3"),
    "no step": (b'"total": 3', b'"totam": 3', "has step None"),
    "a text": (b'"total": 3', b'"total":"3"'[:10], "no line that ends at byte"),
    "no end of a line": (b"}\n", b"} ", "no line that ends at byte"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_record_that_ends_otherwise_is_another_runs(run, name):
    old, new, told = OTHERS[name]
    file = run / "metrics.jsonl"
    start, end = file.read_bytes().rsplit(b"\n", 2)[:2]
    file.write_bytes(start + b"\n" + (end + b"\n").replace(old, new))

    with pytest.raises(CheckpointError, match=told):
        resumed(run)


def test_samples_of_a_later_step_are_another_runs(run):
    file = run / "samples.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"total": 2', b'"total": 4'))

    with pytest.raises(CheckpointError, match=r"samples.jsonl has step 4 where .* has step 3"):
        resumed(run)


def lines_of(file):
    return file.read_bytes().splitlines(keepends=True)


def exchanged(file):
    one, two, *rest = lines_of(file)
    file.write_bytes(b"".join([two, one, *rest]))


def renumbered(file):
    file.write_bytes(file.read_bytes().replace(b'"x": 1', b'"x": 7'))


def filled(byte, number):
    """A change: this line consists of this byte."""

    def change(file):
        lines = lines_of(file)
        lines[number - 1] = byte * (len(lines[number - 1]) - 1) + b"\n"
        file.write_bytes(b"".join(lines))

    return change


def punched(file):
    """The file's first page was never written."""
    file.write_bytes(bytes(9) + file.read_bytes()[9:])


# The same size, and the same end of the metrics.
CHANGED = {
    "two lines exchanged": ("metrics.jsonl", exchanged, "line 1 "),
    "a number": ("metrics.jsonl", renumbered, "line 1 "),
    "a line of blanks": ("metrics.jsonl", filled(b" ", 2), "line 2 "),
    "a line of NULs": ("metrics.jsonl", filled(b"\0", 2), "line 2 "),
    "a hole": ("metrics.jsonl", punched, "line 1 "),
    "NULs in the samples": ("samples.jsonl", punched, "line 1 "),
}


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("resume", ["auto", "must", "PATH"])
def test_a_record_changed_in_the_middle_is_refused_by_line(run, name, resume):
    file, change, place = CHANGED[name]
    if file == "samples.jsonl":  # so that the last line is whole
        lines = JsonLines(directory=str(run))
        lines.rewind(resumed(run).position()["trackers"]["json_lines"])
        lines.log(4, "one", 4, {"x": 4}, [{"text": "b"}, {"text": "c"}])
        place_there = {"phase": 0, "step": 4, "total": 4, "seed": 0}
        place_there["trackers"] = {"json_lines": lines.position()}
        checkpoint_in(run).save({}, place_there)
    change(run / file)
    left = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    with pytest.raises(CheckpointError) as told:
        resumed(run, resume=str(run) if resume == "PATH" else resume)

    assert f"{run / file}, {place}(bytes " in str(told.value)
    assert "restore the record, go on without it in another directory, resume=" in str(told.value)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == left


def test_a_changed_record_goes_on_from_where_it_is_whole(run):
    filled(b" ", 3)(run / "metrics.jsonl")
    with pytest.raises(CheckpointError, match=r"resume=.*step-00000002"):
        resumed(run)

    older = run / "checkpoints" / "step-00000002"
    assert resumed(run, resume=str(older)).path == older


def test_a_changed_record_does_not_matter_in_another_directory(run, tmp_path):
    exchanged(run / "metrics.jsonl")

    longer = {"phases": {"one": {"steps": 6}}}
    saved = resumed(tmp_path / "new", resume=str(run), **longer)

    assert saved.path.name == "step-00000003"


def test_a_checkpoint_without_digests_is_read_with_a_note(run):
    for path in (run / "checkpoints").iterdir():
        state = json.loads((path / "state.json").read_text())
        del state["place"]["trackers"]["json_lines"]["digests"]
        (path / "state.json").write_text(json.dumps(state))
        (path / "manifest.json").unlink()
        write_manifest(path)

    with pytest.warns(RlcompWarning, match=r"step 3 .*has no digest of the record"):
        saved = resumed(run)

    # From here on there is one, of the whole file.
    lines = JsonLines(directory=str(run))
    lines.rewind(saved.position()["trackers"]["json_lines"])
    size, digest = lines.position()["digests"]["metrics"][-1]
    assert size == (run / "metrics.jsonl").stat().st_size
    assert digest == hashlib.sha256((run / "metrics.jsonl").read_bytes()).hexdigest()


def test_a_longer_record_is_cut_and_nothing_is_asked(run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"total": 4}\n{"tot')

    saved = resumed(run)

    assert saved.path.name == "step-00000003"
    assert [path.name for path in saved.older] == ["step-00000002", "step-00000001"]


def test_an_older_checkpoint_of_another_config_does_not_stand_in(run):
    place = {"phase": 0, "step": 0, "total": 0, "trackers": {}}
    checkpoint_in(run, lr=2).save({}, {**place, "total": 2})
    checkpoint_in(run).save({}, {**place, "total": 1, "seed": 0})
    for total in (2, 3):
        place |= {"step": total, "total": total}
        checkpoint_in(run, lr=total).save({}, place)

    with pytest.raises(CheckpointError, match="lr was 3, is 1"):
        resumed(run)
    assert [path.name for path in resumed(run, lr=3).older] == []


def test_nor_does_one_whose_config_cannot_be_read(run):
    (run / "checkpoints" / "step-00000001" / "config.yaml").write_text("a: [")

    assert [path.name for path in resumed(run).older] == ["step-00000002"]


def test_a_line_longer_than_a_block_is_checked_whole(tmp_path):
    lines = JsonLines(directory=str(tmp_path))
    lines.start({"one": 2}, 0)
    for total in (1, 2):
        lines.log(total, "one", total, {}, [{"text": "x" * 200_000}])
    place = lines.position()

    again = JsonLines(directory=str(tmp_path))
    again.rewind(place)

    assert (tmp_path / "samples.jsonl").stat().st_size == place["samples"] > 400_000


def test_a_tracker_does_not_cut_a_record_that_is_another_runs(run):
    record = (run / "metrics.jsonl").read_bytes()
    lines = JsonLines(directory=str(run))

    for size in (len(record) + 1, len(record) - 1):
        with pytest.raises(CheckpointError, match=r"metrics.jsonl has"):
            lines.rewind({"metrics": size, "samples": 0})

    assert (run / "metrics.jsonl").read_bytes() == record


def test_the_record_is_on_disk_before_the_checkpoint_that_speaks_of_it(run, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(os.fstat(handle).st_ino))

    JsonLines(directory=str(run)).position()

    files = [run / "metrics.jsonl", run / "samples.jsonl", run]
    assert done == [file.stat().st_ino for file in files]


def damage(path):
    (path / "state.json").write_text("{}")


def test_what_cannot_be_read_is_never_pruned(tmp_path):
    def place(total):
        best = {"phase": "one", "metric": "x", "better": "higher", "value": 1.0, "step": 1}
        records = {"one": {**best, "total": min(total, 5)}}
        return {"phase": 0, "step": 1, "total": total, "trackers": {}, "best": records}

    first = Checkpoint(directory=str(tmp_path), keep=9)
    for total in (1, 2, 3, 9):
        first.save({}, place(total))
    damage(tmp_path / "step-00000001")
    damage(tmp_path / "step-00000009")  # later than what the run goes on from

    checkpoint = Checkpoint(directory=str(tmp_path), keep=2)
    for total in (4, 5):
        checkpoint.save({}, place(total))

    names = ["step-00000001", "step-00000004", "step-00000005", "step-00000009"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for _ in range(2):
        damage(tmp_path / "step-00000009")
        Checkpoint(directory=str(tmp_path), keep=2).save({}, place(9))
    names[1:3] = ["step-00000005"]
    names += ["unreadable-step-00000009", "unreadable-step-00000009-1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_run_that_saves_nothing_names_no_command_that_goes_on(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise Interrupted("stopped, not saved: the run has no checkpoint")

    monkeypatch.setattr("rlcomp.run.launch.run_phases", stop)
    without = ["~checkpoint", "~phases.warm_start.every.checkpoint", "~phases.rl.every.checkpoint"]
    config = compose_config([*without, f"directory={tmp_path}"])

    with pytest.raises(Interrupted, match=r"the run has no checkpoint$"):
        launch(config, plan_of(config))


SHORT = ("~phases.rl", "phases.warm_start.steps=1")


def test_overwriting_moves_the_old_run_aside_and_begins(play, tmp_path, capsys):
    first = play(tmp_path / "run", *SHORT)
    record = (first / "metrics.jsonl").read_bytes()

    play(tmp_path / "run", *SHORT, "seed=1", "overwrite=true")

    told = f"overwrite: what was in {first} is in {first / 'overwritten' / '1'}\n"
    assert told in capsys.readouterr().out
    assert (first / "overwritten" / "1" / "metrics.jsonl").read_bytes() == record
    assert len((first / "metrics.jsonl").read_text().splitlines()) == 1
    with pytest.raises(CheckpointError, match="seed was 1, is 0"):
        play(tmp_path / "run", *SHORT)
    play(tmp_path / "run", *SHORT, "seed=1")  # overwrite is no part of what was run

    without = ["~checkpoint", "~phases.warm_start.every.checkpoint"]
    config = compose_config([*without, *SHORT, "overwrite=true", f"directory={first}"])
    launch(config, plan_of(config))
    assert (first / "overwritten" / "2" / "checkpoints").is_dir()


def test_a_record_is_cut_to_what_was_told_and_elsewhere_begins_empty(run, tmp_path):
    place = {"metrics": (run / "metrics.jsonl").stat().st_size, "samples": 0}

    JsonLines(directory=str(run)).rewind(place)
    for _ in range(2):  # the second finds the empty files of the first
        JsonLines(directory=str(tmp_path / "new")).rewind(place)

    assert (run / "metrics.jsonl").stat().st_size == place["metrics"]
    assert (run / "samples.jsonl").read_text() == ""
    assert [path.read_text() for path in sorted((tmp_path / "new").iterdir())] == ["", ""]
