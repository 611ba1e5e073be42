"""The record of a run: what is read of it, cut back, moved aside, and where links may not be."""

import hashlib
import warnings

import pytest

from rlcomp.errors import CheckpointError, ConfigError, RlcompWarning
from rlcomp.files.run_directory import (
    archive_run,
    check_links,
    check_record,
    record_line,
    truncate_record,
)
from rlcomp.files.run_record import has_metrics

FIRST, SECOND = '{"total": 1}\n', '{"total": 2}\n'  # of 13 bytes each


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def place(total, digests=None, **sizes):
    lines = {"metrics": 0, "samples": 0} | sizes
    return {"total": total, "trackers": {"json_lines": lines | (digests or {})}}


@pytest.fixture
def record(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(FIRST + SECOND)
    (tmp_path / "samples.jsonl").write_text(FIRST)
    return tmp_path


def test_a_record_is_there_once_it_has_a_byte(tmp_path):
    assert not has_metrics(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("")
    assert not has_metrics(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("{")
    assert has_metrics(tmp_path)


def test_a_record_may_be_longer_than_the_position_tells(record):
    marks = {"metrics": [(13, digest(FIRST))], "samples": [(13, digest(FIRST))]}

    check_record(record, place(1, {"digests": marks}, metrics=13, samples=13))
    check_record(record, place(1, {"digests": {}}, metrics=13))


@pytest.mark.parametrize(
    ("total", "sizes", "told"),
    [
        (2, {"metrics": 13}, "has step 1 where the checkpoint has step 2"),
        (1, {"metrics": 26}, "has step 2 where the checkpoint has step 1"),
        (0, {"samples": 13}, "samples.jsonl has step 1 where the checkpoint has step 0"),
        (2, {"metrics": 27}, "has 26 bytes, the checkpoint tells of 27"),
        (2, {"metrics": 12}, "has no line that ends at byte 12"),
    ],
)
def test_a_record_of_another_run_is_refused(record, total, sizes, told):
    with pytest.raises(CheckpointError, match=told):
        check_record(record, place(total, {"digests": {}}, **sizes))


def test_a_step_without_samples_is_none_of_another_run(record):
    check_record(record, place(2, {"digests": {}}, metrics=26, samples=13))


@pytest.mark.parametrize("name", ["metrics", "samples"])
def test_each_file_is_held_against_its_own_digest(record, name):
    marks = {"metrics": [(13, digest(FIRST))], "samples": [(13, digest(FIRST))]}
    marks[name] = [(13, digest(SECOND))]

    with pytest.raises(CheckpointError, match=rf"{name}.jsonl, line 1 .* is not what the run"):
        check_record(record, place(1, {"digests": marks}, metrics=13, samples=13))


def test_of_a_record_without_digests_a_warning_says_so(record):
    with pytest.warns(RlcompWarning, match=r"step 2 .*has no digest"):
        check_record(record, place(2, metrics=26))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_record(record, place(2, {"digests": {}}, metrics=26))
        check_record(record, {"total": 2, "trackers": {}})


def test_the_line_before_a_byte_is_read(record):
    assert record_line(record / "metrics.jsonl", 13) == {"total": 1}
    assert record_line(record / "metrics.jsonl", 26) == {"total": 2}
    with pytest.raises(CheckpointError, match="has 0 bytes, the checkpoint tells of 13"):
        record_line(record / "gone.jsonl", 13)


def test_a_file_is_cut_back_to_its_length_and_its_digest_goes_on(record):
    file = record / "metrics.jsonl"

    found = truncate_record(file, 13, [(13, digest(FIRST))])

    assert file.read_text() == FIRST
    assert (found.size, found.marks) == (13, [(13, digest(FIRST))])
    assert truncate_record(file, 0).size == 0
    assert file.read_text() == ""
    assert truncate_record(file, 26).size == 0  # an empty file is another directory's
    assert truncate_record(record / "new" / "metrics.jsonl", 26).marks == []
    assert (record / "new" / "metrics.jsonl").read_text() == ""


def test_a_file_that_was_changed_is_not_cut(record):
    file = record / "metrics.jsonl"

    for size, marks in ((13, [(13, digest(SECOND))]), (12, []), (27, [])):
        with pytest.raises(CheckpointError):
            truncate_record(file, size, marks)
    assert file.read_text() == FIRST + SECOND


LEFT = ("metrics.jsonl", "samples.jsonl", "run.yaml", "failure.json", "curve.png")


def test_what_a_run_has_left_is_moved_to_the_next_free_number(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    for number in ("1", "2"):
        checkpoints.mkdir()
        for name in ("step-00000001", "best", "mine"):
            (checkpoints / name).mkdir(exist_ok=True)
        for name in LEFT:
            (tmp_path / name).write_text(number)
        (tmp_path / "notes.txt").write_text("mine")

        folder = archive_run(tmp_path, checkpoints)

        assert folder == tmp_path / "overwritten" / number
        assert {(folder / name).read_text() for name in LEFT} == {number}
        assert sorted(p.name for p in (folder / "checkpoints").iterdir()) == [
            "best",
            "step-00000001",
        ]
        assert [p.name for p in checkpoints.iterdir()] == ["mine"]
        assert sorted(p.name for p in tmp_path.iterdir()) == [
            "checkpoints",
            "notes.txt",
            "overwritten",
        ]
        (checkpoints / "mine").rmdir()
        checkpoints.rmdir()
    assert archive_run(tmp_path, checkpoints) is None


def test_checkpoints_that_are_empty_then_go_but_a_link_or_the_run_itself_stay(tmp_path):
    run, disk = tmp_path / "run", tmp_path / "disk"
    (run / "checkpoints" / "step-00000001").mkdir(parents=True)
    archive_run(run, run / "checkpoints")
    assert not (run / "checkpoints").exists()

    (disk / "step-00000001").mkdir(parents=True)
    (run / "checkpoints").symlink_to(disk)
    archive_run(run, run / "checkpoints")
    assert (run / "checkpoints").is_symlink()
    assert [*disk.iterdir()] == []

    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "metrics.jsonl").write_text(FIRST)
    archive_run(tmp_path / "one", tmp_path / "one")
    assert (tmp_path / "one" / "overwritten" / "1" / "metrics.jsonl").read_text() == FIRST


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "rlcomp.log", ".hydra", ".hydra/config.yaml", "3/samples.jsonl"]
)
def test_a_link_where_a_run_writes_is_refused(tmp_path, name):
    link = tmp_path / name
    link.parent.mkdir(exist_ok=True)
    check_links(tmp_path)
    link.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError, match=f"{link} is a link"):
        check_links(tmp_path)


def test_other_links_are_none_of_a_run(tmp_path):
    (tmp_path / "checkpoints").symlink_to(tmp_path)
    (tmp_path / "config.yaml").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "metrics.jsonl").symlink_to(tmp_path / "elsewhere")

    check_links(tmp_path)
