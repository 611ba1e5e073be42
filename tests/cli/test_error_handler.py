"""Exit codes and messages, without a run."""

import os
import re
import signal
import subprocess
import sys
import warnings

import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf
from tensordict import TensorDict

from rlcomp.cli.error_handler import (
    check_single_process,
    error_report,
    innermost_frame,
    message,
    run_program,
    stack_of,
)
from rlcomp.cli.run import Jobs
from rlcomp.component import Component
from rlcomp.errors import (
    ConfigError,
    Died,
    Interrupted,
    NumericalError,
    ProcessEnded,
    RlcompWarning,
    RunFailed,
    StorageError,
    UserError,
    add_note,
)


def ending(error):
    def app():
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x is 0"), 2),
        (HydraException("x"), 2),
        (NumericalError("x is nan"), 3),
        (StorageError("full"), 74),
        (Interrupted("saved"), 75),
        (KeyboardInterrupt(), 130),
        (ProcessEnded("reward ends the process"), 1),
        (Died("ended its process"), 1),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_every_end_has_its_exit_code(error, code, capsys):
    with pytest.raises(SystemExit) as left:
        run_program(ending(error))

    assert left.value.code == code
    assert ("Traceback" in capsys.readouterr().err) == isinstance(error, ZeroDivisionError)


def test_a_warning_is_told_in_one_line_that_cannot_steer_the_terminal(capsys):
    def app():
        warnings.simplefilter("always")
        warnings.warn("rows \x1b[2J twice", RlcompWarning, stacklevel=1)
        warnings.warn("old \x1b[2J torch", UserWarning, stacklevel=1)

    run_program(app)

    own, other = capsys.readouterr().err.splitlines()[:2]
    assert own == r"rlcomp: rows \x1b[2J twice"
    assert other.endswith(r"UserWarning: old \x1b[2J torch")
    assert other.startswith(__file__)


def test_an_app_that_does_its_work_just_returns():
    assert run_program(lambda: None) is None


def test_a_numerical_error_is_told_with_its_place_and_a_remedy(capsys):
    error = NumericalError("the gradient is nan")
    add_note(error, "in stage 'learner'")

    told = error_report(error)["error"]

    first, second, remedy = told.split("\n")
    assert (first, second) == ("the gradient is nan", "in stage 'learner'")
    assert "smaller learning rate" in remedy


def test_what_a_run_elsewhere_said_is_passed_on():
    told = {"error": "x", "type": "DataError", "exit_code": 2, "traceback": "", "foreseen": True}

    assert error_report(RunFailed(told)) == told
    assert RunFailed(told).exit_code == 2
    assert message(told) == "rlcomp: x"


def test_no_message_can_steer_the_terminal():
    told = {"error": "a\x1b[2J", "traceback": "b\x1b[2J\n"}

    assert message({**told, "foreseen": True}) == "rlcomp: a\\x1b[2J"
    assert message({**told, "foreseen": False}) == "b\\x1b[2J"


def test_a_run_that_was_killed_ends_the_command_by_the_same_signal():
    code = (
        "from rlcomp.cli.error_handler import run_program\nfrom rlcomp.errors import Died\n"
        "def app(): raise Died('killed by SIGTERM', signal=15)\nrun_program(app)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "rlcomp: killed by SIGTERM\n")


def test_a_traceback_has_no_frame_of_hydra_not_even_in_its_cause():
    from hydra.utils import call

    try:
        try:
            call({"_target_": "math.sqrt", "_args_": [-1]})
        except Exception as error:
            raise RuntimeError("outer") from error
    except RuntimeError as error:
        told = stack_of(error)

    assert "math domain error" in told
    assert "RuntimeError: outer" in told
    assert "/hydra/" not in told
    assert told.count('test_error_handler.py", line ') == 2


class Broken(Component):
    reads = writes = ()

    def forward(self, batch):
        return 1 / len(batch.keys())


def test_a_traceback_is_without_the_frames_that_every_stage_is_called_through():
    with pytest.raises(ZeroDivisionError) as caught:
        Broken()(TensorDict())

    told = stack_of(caught.value)
    assert re.findall(r'File "(.+)", line \d+, in (\w+)', told) == [
        (__file__, "test_a_traceback_is_without_the_frames_that_every_stage_is_called_through"),
        (__file__, "forward"),
    ]


def test_a_traceback_ends_where_the_error_was_raised():
    class Reading(Broken):
        reads = ("tokens",)

    with pytest.raises(KeyError, match="Reading reads 'tokens'") as caught:
        Reading()(TensorDict())

    assert re.findall(r'File "(.+)", line', stack_of(caught.value))[-1].endswith("component.py")


def test_the_innermost_frame_is_that_of_the_thread_that_died():
    dump = (
        'Thread 0x2:\n  File "other.py", line 1 in wait\n\nCurrent thread 0x1 (most recent call '
        'first):\n  File "mine.py", line 3 in f\n  File "outer.py", line 9 in g\n'
    )

    assert innermost_frame(dump) == " (mine.py, line 3, in f)"
    assert innermost_frame("Fatal Python error: Aborted\n") == ""


def test_the_working_directory_joins_the_path_once_and_last(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    before = [*sys.path]

    for _ in range(2):
        run_program(lambda: None)

    assert sys.path == [*before, str(tmp_path)]


def test_what_a_job_raises_is_not_taken_for_a_directory_that_cannot_be_made():
    jobs, error = Jobs(apart=False), OSError("no such file")
    refused = jobs.describe_error(error)
    assert isinstance(refused, UserError)
    assert "choose a directory you can write into" in str(refused)

    jobs.errors = [Interrupted("stopped")]
    jobs(OmegaConf.create())  # does nothing once the sweep was stopped, but has begun
    jobs.errors = []

    assert jobs.describe_error(error) is error


def test_a_reader_that_is_gone_ends_a_command_quietly(tmp_path):
    module = "rlcomp.cli.error_handler"
    code = f"from {module} import run_program\nrun_program(lambda: print('a line\\n' * 9 ** 6))"
    for words in (["-c", code], ["-c", code.replace(" * 9 ** 6", "")]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [sys.executable, *words], stdout=write, stderr=subprocess.PIPE, check=False
        )
        os.close(write)
        assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_another_pipe_that_breaks_is_an_error_as_any(capsys):
    def app():
        raise BrokenPipeError("of a worker")

    with pytest.raises(SystemExit) as left:
        run_program(app)

    assert left.value.code == 1
    assert "BrokenPipeError: of a worker" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["2", "16"])
def test_one_of_several_processes_is_refused(size):
    with pytest.raises(UserError, match=rf"^WORLD_SIZE is {size}: .*without torchrun.*=joblib$"):
        check_single_process({"WORLD_SIZE": size, "RANK": "0"})


@pytest.mark.parametrize("environment", [{}, {"WORLD_SIZE": "1"}, {"WORLD_SIZE": ""}])
def test_a_process_alone_may_go_on(environment):
    check_single_process(environment)
