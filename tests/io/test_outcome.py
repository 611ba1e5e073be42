import fcntl
import json

import pytest

from rlcomp.errors import DataError, Interrupted
from rlcomp.io.outcome import failure, failure_kept, running


def fail(directory, error):
    with pytest.raises(type(error)), failure_kept(directory, str):
        raise error


def test_a_failure_is_kept_with_its_kind_and_its_place(tmp_path):
    fail(tmp_path, DataError("no such file"))

    assert failure(tmp_path) == "DataError: no such file"
    assert "in fail" in json.loads((tmp_path / "failure.json").read_text())["traceback"]


def test_a_new_attempt_forgets_the_failure(tmp_path):
    fail(tmp_path, ValueError("an invariant"))

    with failure_kept(tmp_path, str):
        assert failure(tmp_path) is None
    assert failure(tmp_path) is None


def test_a_run_that_was_stopped_has_not_failed(tmp_path):
    fail(tmp_path, Interrupted("stopped after step 3"))

    assert failure(tmp_path) is None


def test_a_directory_that_another_run_holds_is_left_alone(tmp_path):
    fail(tmp_path, ValueError("first"))
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert running(tmp_path)
        fail(tmp_path, ValueError("second"))

    assert failure(tmp_path) == "ValueError: first"
    assert not running(tmp_path)


def test_where_no_directory_could_be_made_nothing_is_written(tmp_path):
    fail(tmp_path / "nowhere", OSError("disk full"))

    assert not (tmp_path / "nowhere").exists()


@pytest.mark.slow
def test_a_job_that_breaks_leaves_the_others_running(rlcomp, tmp_path, monkeypatch, capsys):
    from rlcomp.run import launch

    ran = []

    def broken(config, plan):
        ran.append(config.seed)
        if config.seed == 0:
            raise ZeroDivisionError("an invariant")

    monkeypatch.setattr(launch, "launch", broken)

    with pytest.raises(ZeroDivisionError):
        rlcomp("-m", "seed=0,1", f"directory={tmp_path}")

    assert ran == [0, 1]
    assert failure(tmp_path / "0") == "ZeroDivisionError: an invariant"
    assert failure(tmp_path / "1") is None
    assert "rlcomp: job 0: ZeroDivisionError: an invariant" in capsys.readouterr().err


def test_a_single_runs_mistake_is_kept_as_well(rlcomp, tmp_path):
    assert rlcomp("rollout.group_size=0", f"directory={tmp_path / 'run'}") == 2

    assert failure(tmp_path / "run").startswith("ConfigErrors: rollout.group_size is 0")
