import json
import os
import sys
from contextlib import contextmanager

import pytest

from rlcomp.cli.supervisor import run_in_child
from rlcomp.errors import CheckpointError, Died, MissingExtra, StorageError
from rlcomp.files.shared_status import SharedStatus
from rlcomp.trackers.tensorboard import TensorBoard
from rlcomp.trackers.tracker import JsonLines, closing_tracker, tracker_session

PHASES = {"rl": 3}


def log(tracker, total, samples=(), **metrics):
    tracker.log(total, "rl", total, metrics or {"reward/mean": total / 2}, samples)


def rows(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_every_step_is_one_line_with_its_place(tmp_path):
    tracker = JsonLines(directory=str(tmp_path / "new"))
    tracker.start(PHASES, 0)
    log(tracker, 1)
    log(tracker, 2, **{"loss/policy": -0.5})

    assert rows(tmp_path / "new" / "metrics.jsonl") == [
        {"total": 1, "phase": "rl", "step": 1, "reward/mean": 0.5},
        {"total": 2, "phase": "rl", "step": 2, "loss/policy": -0.5},
    ]


def test_every_line_is_on_disk_at_once(tmp_path):
    tracker = JsonLines(directory=str(tmp_path))
    tracker.start(PHASES, 0)

    for total in (1, 2):
        log(tracker, total)
        assert len(rows(tmp_path / "metrics.jsonl")) == total


def test_samples_have_a_file_of_their_own(tmp_path):
    tracker = JsonLines(directory=str(tmp_path))
    tracker.start(PHASES, 0)
    log(tracker, 1)
    log(tracker, 2, [{"prompt": "1+1=", "response": "é\n"}, {"prompt": "2+2="}])

    assert rows(tmp_path / "samples.jsonl") == [
        {"total": 2, "phase": "rl", "step": 2, "prompt": "1+1=", "response": "é\n"},
        {"total": 2, "phase": "rl", "step": 2, "prompt": "2+2="},
    ]


def test_what_json_cannot_hold_is_null_in_both_files(tmp_path):
    nan, infinity = float("nan"), float("inf")
    tracker = JsonLines(directory=str(tmp_path))
    tracker.start(PHASES, 0)
    sample = {"prompt": "NaN", "reward": nan, "rewards": {"a": -infinity}, "log_probs": (0.5, nan)}
    log(tracker, 1, [sample], **{"reward/mean": infinity, "reward/steps": 0.25})

    def refuse(word):
        raise ValueError(word)

    (metrics,), (kept,) = (
        [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
        for path in (tmp_path / "metrics.jsonl", tmp_path / "samples.jsonl")
    )
    place = {"total": 1, "phase": "rl", "step": 1}
    assert metrics == {**place, "reward/mean": None, "reward/steps": 0.25}
    known = {"prompt": "NaN", "reward": None, "rewards": {"a": None}, "log_probs": [0.5, None]}
    assert kept == {**place, **known}


def test_a_new_run_in_an_old_directory_starts_empty_files(tmp_path):
    for _ in range(2):
        tracker = JsonLines(directory=str(tmp_path))
        tracker.start(PHASES, 0)
        log(tracker, 1, [{"prompt": "a"}])

    assert len(rows(tmp_path / "metrics.jsonl")) == len(rows(tmp_path / "samples.jsonl")) == 1


def test_a_resumed_run_cuts_back_to_its_checkpoint_and_goes_on(tmp_path):
    tracker = JsonLines(directory=str(tmp_path))
    tracker.start(PHASES, 0)
    log(tracker, 1, [{"prompt": "a"}])
    place = json.loads(json.dumps(tracker.position()))
    log(tracker, 2, [{"prompt": "lost"}])
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"half a li')

    again = JsonLines(directory=str(tmp_path))
    again.rewind(place)
    again.start(PHASES, 1)
    log(again, 2, [{"prompt": "b"}])

    assert [row["total"] for row in rows(tmp_path / "metrics.jsonl")] == [1, 2]
    assert [row["prompt"] for row in rows(tmp_path / "samples.jsonl")] == ["a", "b"]


def test_phases_that_ended_early_are_kept_to_the_checkpoint_and_along_with_it(tmp_path):
    one, two = ({"phase": name, "step": 1, "steps": 9, "best": None} for name in ("one", "two"))
    tracker = JsonLines(directory=str(tmp_path / "a"))
    tracker.start(PHASES, 0)
    assert not (tmp_path / "a" / "ended.jsonl").exists()
    tracker.phase_ended(1, {**one, "reason": "enough"})
    place = json.loads(json.dumps(tracker.position()))
    tracker.phase_ended(2, {**two, "reason": "too much"})

    first, second = rows(tmp_path / "a" / "ended.jsonl")
    assert first == {"total": 1, **one, "reason": "enough"}
    assert second == {"total": 2, **two, "reason": "too much"}
    for name in ("a", "b"):  # the same directory, and another one
        again = JsonLines(directory=str(tmp_path / name))
        again.rewind(place)
        again.start(PHASES, 1)
        assert rows(tmp_path / name / "ended.jsonl") == [first]
    JsonLines(directory=str(tmp_path / "a")).start(PHASES, 0)
    assert not (tmp_path / "a" / "ended.jsonl").exists()


def test_a_run_resumed_in_another_directory_starts_files_there(tmp_path):
    tracker = JsonLines(directory=str(tmp_path / "old"))
    tracker.start(PHASES, 0)
    log(tracker, 1)

    again = JsonLines(directory=str(tmp_path / "new"))
    again.rewind(tracker.position())
    again.start(PHASES, 1)
    log(again, 2)

    assert [row["total"] for row in rows(tmp_path / "new" / "metrics.jsonl")] == [2]


def test_tensorboard_files_can_be_read_back(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    tracker = TensorBoard(directory=str(tmp_path))
    tracker.start(PHASES, 0)
    for total in (1, 2):
        log(tracker, total, [{"prompt": "a"}])
    tracker.finish()

    events = reader.EventAccumulator(str(tmp_path / "tensorboard")).Reload()

    assert [(e.step, e.value) for e in events.Scalars("reward/mean")] == [(1, 0.5), (2, 1.0)]
    assert events.Tags()["tensors"] == ["samples/text_summary"]


def test_tensorboard_is_told_what_a_run_failed_by(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    tracker = TensorBoard(directory=str(tmp_path))
    tracker.start(PHASES, 0)
    tracker.finish(ValueError("boom"))

    events = reader.EventAccumulator(str(tmp_path / "tensorboard")).Reload()

    (told,) = events.Tensors("error/text_summary")
    assert told.tensor_proto.string_val == [b"ValueError: boom"]


def test_tensorboard_has_every_step_and_the_end_of_a_run_that_dies(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings, watch = {"directory": str(tmp_path)}, SharedStatus(supervised=True)

    def job():
        tracker = TensorBoard(**settings)
        tracker.start(PHASES, 0)
        log(tracker, 1)
        os._exit(7)

    with pytest.raises(Died), closing_tracker(TensorBoard, settings, watch):
        run_in_child(job, watch)

    events = reader.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("reward/mean")] == [(1, 0.5)]
    (told,) = events.Tensors("error/text_summary")
    assert told.tensor_proto.string_val[0].startswith(b"Died: the run ended its process")


class Own:
    """A tracker of one's own, closed by whoever waits for its run."""

    closed = []

    @staticmethod
    @contextmanager
    def outlive(settings):
        yield lambda error: Own.closed.append((settings, error))


@pytest.mark.parametrize("told", [True, False])
def test_a_tracker_of_ones_own_is_closed_unless_the_run_has_said_how_it_ended(told):
    watch, error = SharedStatus(), KeyboardInterrupt()
    Own.closed.clear()
    if told:
        watch.set_outcome({"exit_code": 1})

    with pytest.raises(KeyboardInterrupt), closing_tracker(Own, {"a": 1}, watch):
        raise error
    with closing_tracker(Own, {}, SharedStatus()):
        pass

    assert Own.closed == ([] if told else [({"a": 1}, error)])


def test_a_tracker_that_cannot_be_closed_does_not_hide_how_the_run_ended():
    class Broken:
        @staticmethod
        @contextmanager
        def outlive(settings):
            def close(error):
                raise OSError("disk full")

            yield close

    with pytest.raises(Died, match="killed") as error, closing_tracker(Broken, {}, SharedStatus()):
        raise Died("killed")

    assert error.value.__notes__ == ["the tracker was not closed: OSError: disk full"]


def test_a_tracker_without_it_is_left_alone():
    with pytest.raises(Died), closing_tracker(JsonLines, {}, SharedStatus()):
        raise Died("killed")


def test_a_resumed_tensorboard_forgets_what_came_after_its_checkpoint(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    tracker = TensorBoard(directory=str(tmp_path))
    tracker.start(PHASES, 0)
    for total in (1, 2, 3):
        log(tracker, total, **{"reward/mean": 9.0})
    tracker.finish()
    # Two files of one second are read in an order that does not tell which is newer.
    (old,) = (tmp_path / "tensorboard").iterdir()
    old.rename(old.with_name("events.out.tfevents.0000000001.host"))

    again = TensorBoard(directory=str(tmp_path))
    again.rewind(again.position())
    again.start(PHASES, 1)
    log(again, 2)
    again.finish()

    events = reader.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("reward/mean")] == [(1, 9.0), (2, 1.0)]


def test_tensorboard_without_its_extra_says_which(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)

    with pytest.raises(MissingExtra, match=r"pip install 'rlcomp\[plots\]'"):
        TensorBoard(directory=str(tmp_path))


def test_finishing_what_never_started_is_no_error(tmp_path):
    TensorBoard(directory=str(tmp_path)).finish()
    JsonLines(directory=str(tmp_path)).finish()

    assert list(tmp_path.iterdir()) == []


def emptied(file):
    file.write_text("")


def lengthened(file):
    with file.open("a") as opened:
        opened.write("# mine\n")


DAMAGES = {"emptied": emptied, "deleted": lambda file: file.unlink(), "lengthened": lengthened}


@pytest.mark.parametrize("file", ["metrics.jsonl", "samples.jsonl"])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_record_resized_while_the_run_goes_on_is_told_at_the_next_step(tmp_path, name, file):
    tracker = JsonLines(directory=str(tmp_path))
    tracker.start(PHASES, 0)
    log(tracker, 1, [{"prompt": "a"}])
    kept = {path: path.read_bytes() for path in tmp_path.iterdir() if path.name != file}
    DAMAGES[name](tmp_path / file)
    changed = (tmp_path / file).read_bytes() if (tmp_path / file).exists() else None

    with pytest.raises(StorageError, match=rf"{file} has \d+ bytes, but the run has written \d+:"):
        log(tracker, 2, [{"prompt": "b"}])

    # Nothing was written into what is another's by now.
    assert changed == ((tmp_path / file).read_bytes() if changed is not None else None)
    if file == "metrics.jsonl":
        assert kept == {path: path.read_bytes() for path in kept}


def test_a_directory_that_vanished_is_another_thing(tmp_path):
    tracker = JsonLines(directory=str(tmp_path / "run"))
    tracker.start(PHASES, 0)
    log(tracker, 1)
    (tmp_path / "run").rename(tmp_path / "away")

    with pytest.raises(FileNotFoundError):
        log(tracker, 2)


def swapped(file):
    file.write_bytes(file.read_bytes().replace(b"a", b"b"))


@pytest.mark.parametrize("file", ["metrics.jsonl", "samples.jsonl", "ended.jsonl"])
@pytest.mark.parametrize("change", [swapped, emptied, lambda file: file.unlink(), lengthened])
def test_a_record_changed_while_the_run_goes_on_is_told_at_its_end(tmp_path, file, change):
    tracker, other = JsonLines(directory=str(tmp_path)), Ends()

    def run():
        with tracker_session([tracker, other], PHASES, 0, SharedStatus()):
            log(tracker, 1, [{"prompt": "a"}])
            tracker.phase_ended(1, {"phase": "rl", "step": 1, "steps": 3, "reason": "a"})
            change(tmp_path / file)

    with pytest.raises(StorageError, match=rf"{file}.*restore the record") as told:
        run()

    assert other.ended == [told.value]  # the other trackers are told that it failed


def test_a_record_that_is_whole_ends_well(tmp_path):
    tracker, other = JsonLines(directory=str(tmp_path)), Ends()

    with tracker_session([tracker, other], PHASES, 0, SharedStatus()):
        log(tracker, 1, [{"prompt": "a"}])
        tracker.phase_ended(1, {"phase": "rl", "step": 1, "steps": 3, "reason": "a"})

    assert other.ended == [None]


class Ends:
    """A tracker that is told how the run ended."""

    name = "ends"

    def __init__(self):
        self.ended = []

    def start(self, phases, done):
        del phases, done

    def finish(self, error=None):
        self.ended.append(error)


def test_a_tracker_that_starts_anew_begins_an_empty_record(tmp_path):
    lines = JsonLines(directory=str(tmp_path))
    for value in (1.0, 2.0):
        lines.start({"rl": 1}, 0)
        lines.log(1, "rl", 1, {"reward": value}, [])

    rows = [json.loads(line) for line in lines.metrics.read_text().splitlines()]
    assert [row["reward"] for row in rows] == [2.0]
    lines.check()


def test_early_ends_that_are_a_folder_are_refused_before_the_record_is_cut(tmp_path):
    tracker = JsonLines(directory=str(tmp_path))
    tracker.start({"train": 3}, 0)
    tracker.log(1, "train", 1, {"loss": 1.0}, [])
    place = tracker.position()
    tracker.log(2, "train", 2, {"loss": 2.0}, [])
    (tmp_path / "ended.jsonl").mkdir()

    with pytest.raises(CheckpointError, match=r"ended\.jsonl is not a file: move it"):
        JsonLines(directory=str(tmp_path)).rewind(place)

    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
