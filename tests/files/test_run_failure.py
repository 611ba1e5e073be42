import errno
import fcntl
import json
import shutil

import pytest
from omegaconf import OmegaConf

from rlcomp.errors import DataError, Interrupted
from rlcomp.files.run_record import is_locked, read_failure, record_failure, write_run_record
from rlcomp.files.shared_status import SharedStatus


def verdict(error):
    return {"error": str(error), "type": type(error).__name__}


def fail(directory, error, watch=None, before=lambda: None):
    with pytest.raises(type(error)) as caught:
        _run(directory, error, watch or SharedStatus(), before)
    return caught.value


def _run(directory, error, watch, before):
    with record_failure(directory, watch, verdict):
        before()
        raise error


def test_a_failure_is_kept_with_its_kind_and_where_the_run_was(tmp_path):
    watch = SharedStatus()
    watch.set_position("rl", 2, 9, "reward (Regex)")

    fail(tmp_path, DataError("no such file"), watch)

    assert read_failure(tmp_path) == "DataError: no such file"
    assert json.loads((tmp_path / "failure.json").read_text()) == {
        "error": "no such file",
        "type": "DataError",
        "phase": "rl",
        "step": 2,
        "steps": 9,
        "stage": "reward (Regex)",
    }
    assert [file.name for file in tmp_path.iterdir()] == ["failure.json"]


def test_a_new_attempt_forgets_the_failure(tmp_path):
    fail(tmp_path, ValueError("an invariant"))

    with record_failure(tmp_path, SharedStatus(), verdict):
        assert read_failure(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_run_with_a_record_failed_by_stays_until_an_attempt_is_accepted(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"total": 1}\n')
    accepted = OmegaConf.create({"seed": 1})
    fail(tmp_path, ValueError("at step 2"), before=lambda: write_run_record(accepted, tmp_path))

    fail(tmp_path, DataError("refused"))
    assert read_failure(tmp_path) == "ValueError: at step 2"

    (tmp_path / "failure.json").rename(tmp_path / "kept")
    fail(tmp_path, DataError("refused"))
    assert read_failure(tmp_path) is None, "a run that was finished has not failed by it"
    (tmp_path / "kept").rename(tmp_path / "failure.json")

    fail(tmp_path, ValueError("at step 3"), before=lambda: write_run_record(accepted, tmp_path))
    assert read_failure(tmp_path) == "ValueError: at step 3"

    with record_failure(tmp_path, SharedStatus(), verdict):
        write_run_record(accepted, tmp_path)
        assert read_failure(tmp_path) is None
    assert read_failure(tmp_path) is None


@pytest.mark.parametrize("error", [Interrupted("stopped after step 3"), KeyboardInterrupt()])
def test_a_run_that_was_stopped_has_not_failed(tmp_path, error):
    fail(tmp_path, error)

    assert list(tmp_path.iterdir()) == []


def test_what_is_no_exception_but_ends_the_run_is_a_failure(tmp_path):
    fail(tmp_path, SystemExit(0))

    assert read_failure(tmp_path) == "SystemExit: 0"


def test_a_directory_that_another_run_holds_is_left_alone(tmp_path):
    fail(tmp_path, ValueError("first"))
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (tmp_path / ".reserved").touch()

        assert is_locked(tmp_path)
        fail(tmp_path, ValueError("second"))
        assert (tmp_path / ".reserved").is_file(), "it is the other run's"

    assert read_failure(tmp_path) == "ValueError: first"
    assert not is_locked(tmp_path)


def test_where_no_directory_could_be_made_nothing_is_written(tmp_path):
    fail(tmp_path / "nowhere", OSError("disk full"))

    assert not (tmp_path / "nowhere").exists()


def test_a_directory_that_was_deleted_is_made_again_for_the_failure(tmp_path):
    run = tmp_path / "sweep" / "0"
    run.mkdir(parents=True)

    fail(run, OSError("gone"), before=lambda: shutil.rmtree(run.parent))

    assert read_failure(run) == "OSError: gone"


def test_room_for_the_failure_is_reserved_while_the_run_goes_on(tmp_path):
    with record_failure(tmp_path, SharedStatus(), verdict):
        # A verdict is at most 8000 + 32000 characters, and a few names.
        assert (tmp_path / ".reserved").stat().st_size == 65536


def test_a_failure_that_cannot_be_written_does_not_hide_the_error(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)

    told = fail(tmp_path, ValueError("the cause"))

    notes = "\n".join([*map(str, told.args), *getattr(told, "__notes__", [])])
    assert notes.startswith("the cause\n")
    assert "failure.json cannot be written: [Errno 28] No space left on device" in notes


@pytest.mark.slow
def test_a_job_that_breaks_leaves_the_others_running(rlcomp, tmp_path, monkeypatch, capsys):
    from rlcomp.run import launch

    ran = []

    def broken(config, plan, watch, leaves):
        ran.append(config.seed)
        if config.seed == 0:
            raise ZeroDivisionError("an invariant")

    monkeypatch.setattr(launch, "launch", broken)

    assert rlcomp("-m", "seed=0,1", f"directory={tmp_path}") == 1

    assert ran == [0, 1]
    assert read_failure(tmp_path / "0") == "ZeroDivisionError: an invariant"
    assert read_failure(tmp_path / "1") is None
    assert "rlcomp: job 0: ZeroDivisionError: an invariant" in capsys.readouterr().err


def test_a_single_runs_mistake_is_kept_as_well(rlcomp, tmp_path):
    assert rlcomp("rollout.group_size=0", f"directory={tmp_path / 'run'}") == 2

    assert read_failure(tmp_path / "run").startswith("ConfigErrors: rollout.group_size is 0")
