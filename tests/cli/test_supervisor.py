"""A job in a process of its own: whatever ends it is told."""

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from rlcomp.cli.supervisor import run_in_child
from rlcomp.errors import DataError, Died, Interrupted, RunFailed
from rlcomp.files.shared_status import RESUME_REMEDY, SharedStatus


def watched(*, begun=True):
    watch = SharedStatus(supervised=True)
    if begun:
        watch.set_position("rl", 2, 9, "reward (Regex)")
    return watch


def raising(error):
    def job():
        raise error

    return job


def failed(job, kind):
    with pytest.raises(kind) as caught:
        run_in_child(job, watched())
    return caught.value


def test_a_job_runs_elsewhere_to_its_end(tmp_path):
    run_in_child(lambda: (tmp_path / "pid").write_text(str(os.getpid())), watched())

    assert (tmp_path / "pid").read_text() != str(os.getpid())


def test_what_a_job_leaves_for_its_end_is_done(tmp_path):
    def job():
        atexit.register((tmp_path / "atexit").touch)
        threading.Thread(target=lambda: [time.sleep(0.2), (tmp_path / "thread").touch()]).start()

    run_in_child(job, watched())

    assert sorted(file.name for file in tmp_path.iterdir()) == ["atexit", "thread"]


KEPT = []


def test_a_job_clears_up_after_itself_and_not_after_its_parent(tmp_path):
    atexit.register((tmp_path / "parents").touch)

    def job():
        KEPT.append(tempfile.TemporaryDirectory())
        (tmp_path / "its own").write_text(KEPT[0].name)

    with tempfile.TemporaryDirectory() as parents:
        run_in_child(job, watched())

        assert os.path.isdir(parents)
    assert not os.path.exists((tmp_path / "its own").read_text())
    assert not (tmp_path / "parents").exists()


@pytest.mark.parametrize(
    ("error", "code", "foreseen"),
    [
        (DataError("no such file"), 2, True),
        (ZeroDivisionError("by nothing"), 1, False),
        (SystemExit(0), 1, False),
        (GeneratorExit(), 1, False),
    ],
)
def test_an_exception_of_a_job_is_told_with_its_code(error, code, foreseen):
    told = failed(raising(error), RunFailed).report

    assert (told["type"], told["error"]) == (type(error).__name__, str(error))
    assert (told["exit_code"], told["foreseen"]) == (code, foreseen)
    assert 'test_supervisor.py", line ' in told["traceback"]


def test_a_job_that_was_stopped_on_request_says_how_to_go_on():
    assert str(failed(raising(Interrupted("go on with: rlcomp")), Interrupted)) == (
        "go on with: rlcomp"
    )


def test_a_job_that_stopped_at_once_is_no_failure():
    watch = watched()

    with pytest.raises(KeyboardInterrupt):
        run_in_child(raising(KeyboardInterrupt()), watch)

    assert watch.outcome()["exit_code"] == 128 + signal.SIGINT
    assert watch.outcome()["foreseen"]


@pytest.mark.parametrize("status", [0, 75])
def test_a_job_that_ends_its_process_is_not_done(status):
    error = failed(lambda: os._exit(status), Died)

    assert str(error).startswith(
        "the run ended its process in stage 'reward (Regex)', phase 'rl', step 2 of 9, with exit "
        f"status {status} without an error, as os._exit or an exiting library does: raise an "
        "error there instead; "
    )
    assert str(error).endswith(
        f"; its record and its checkpoints are as they were: {RESUME_REMEDY}"
    )
    assert (error.exit_code, error.signal) == (1, 0)


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_crash_is_told_with_the_line_of_python_it_came_from():
    error = failed(crash, Died)

    told = "the run was killed by SIGSEGV in stage 'reward (Regex)', phase 'rl', step 2 of 9, where"
    line = crash.__code__.co_firstlineno + 1
    assert f"{told} Python was ({__file__}, line {line}, in crash): failure.json" in str(error)
    assert error.stack.startswith("Fatal Python error: Segmentation fault")
    assert (error.exit_code, error.signal) == (139, 11)


def test_a_kill_without_a_stack_is_told_with_what_may_have_been():
    error = failed(lambda: os.kill(os.getpid(), signal.SIGKILL), Died)

    assert "killed by SIGKILL in stage" in str(error)
    assert "because memory ran out: use smaller batches" in str(error)
    assert (error.exit_code, error.stack) == (137, "")


def test_a_job_that_dies_before_its_first_step_says_so():
    with pytest.raises(Died, match="ended its process before its first step, with"):
        run_in_child(lambda: os._exit(0), watched(begun=False))


def until(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


def test_the_first_signal_is_answered_while_the_job_is_busy(capfd):
    watch = watched()

    def job():
        os.kill(os.getppid(), signal.SIGINT)
        until(lambda: watch.signals)
        assert watch.signals == 1

    run_in_child(job, watch)

    assert capfd.readouterr().err == (
        "\nrlcomp: stopping at the end of this step; still in stage 'reward (Regex)', phase 'rl', "
        "step 2 of 9; a second signal stops at once\n"
    )


@pytest.mark.parametrize("whose", ["ours", "the job's"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_signal_in_the_moment_of_the_fork_is_not_lost(monkeypatch, tmp_path, whose, begun):
    fork, watch, ours = os.fork, watched(begun=begun), os.getpid()

    def forking():
        child = fork()
        if bool(child) == (whose == "ours"):
            os.kill(ours, signal.SIGTERM)  # would end this process, or the next
            os.kill(os.getpid(), signal.SIGTERM) if not child else None
            until(lambda: watch.signals)
        return child

    def job():
        until(lambda: watch.signals)
        (tmp_path / "went on").touch()

    monkeypatch.setattr("os.fork", forking)
    with nullcontext() if begun else pytest.raises(KeyboardInterrupt):
        run_in_child(job, watch)

    assert watch.signals == 1
    assert (tmp_path / "went on").exists() == begun


@pytest.mark.parametrize(("begun", "signals"), [(True, 2), (False, 1)])
def test_a_job_is_stopped_at_once_by_the_second_signal_or_before_it_began(begun, signals, tmp_path):
    watch = watched(begun=begun)

    def job():
        for count in range(signals):
            os.kill(os.getppid(), signal.SIGTERM)
            until(lambda count=count: watch.signals > count)
        until(lambda: False)  # for a minute
        (tmp_path / "went on").touch()

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_in_child(job, watch)

    assert time.monotonic() - start < 30
    assert not (tmp_path / "went on").exists()


def test_a_job_that_does_not_listen_is_killed_by_the_third_signal():
    watch = watched()

    def job():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        for count in range(3):
            os.kill(os.getppid(), signal.SIGTERM)
            until(lambda count=count: watch.signals > count)
        until(lambda: False)

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_in_child(job, watch)

    assert time.monotonic() - start < 30


def test_the_handlers_of_before_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    run_in_child(lambda: None, watched())

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_in_another_thread_signals_are_somebody_elses():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run_in_child, lambda: None, watched()).result() is None


def test_a_job_does_not_outlive_what_watches_over_it(tmp_path):
    program = f"""
import os, time
from rlcomp.cli.supervisor import run_in_child
from rlcomp.files.shared_status import SharedStatus
def job():
    open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
    os.rename({str(tmp_path / "pid")!r}, {str(tmp_path / "job")!r})
    time.sleep(60)
run_in_child(job, SharedStatus(supervised=True))
"""
    parent = subprocess.Popen([sys.executable, "-c", program])
    until((tmp_path / "job").exists)
    job = int((tmp_path / "job").read_text())

    parent.kill()
    parent.wait()

    def ended():
        try:
            with open(f"/proc/{job}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    until(ended)
    assert ended()


def test_a_job_that_dies_once_it_was_asked_to_stop_is_dead_and_not_stopped():
    watch = watched()

    def job():
        os.kill(os.getppid(), signal.SIGTERM)
        until(lambda: watch.signals)
        os._exit(3)

    with pytest.raises(Died, match="with exit status 3"):
        run_in_child(job, watch)


def test_a_job_that_a_signal_cuts_off_while_it_says_how_it_ended_was_stopped(monkeypatch):
    watch = watched()

    def cut_off(told):
        watch.signals = 1
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "set_outcome", cut_off)
    with pytest.raises(KeyboardInterrupt):
        run_in_child(lambda: None, watch)


def test_a_signal_to_a_job_that_has_ended_does_not_keep_it_from_saying_so(monkeypatch):
    watch = watched()
    end = watch.set_outcome

    def asked_late(told):
        os.kill(os.getpid(), signal.SIGTERM)
        end(told)

    monkeypatch.setattr(watch, "set_outcome", asked_late)

    assert run_in_child(lambda: None, watch) is None
