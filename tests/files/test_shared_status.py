import errno
import os

import pytest
from safetensors import SafetensorError

from rlcomp.errors import CheckpointError, StorageError
from rlcomp.files.shared_status import (
    RESUME_REMEDY,
    SharedStatus,
    describe_position,
    storage_errors,
)


def in_another_process(act):
    child = os.fork()
    if not child:
        act()
        os._exit(0)
    os.waitpid(child, 0)


def test_what_a_run_says_of_itself_is_there_after_its_process():
    watch = SharedStatus(supervised=True)

    in_another_process(
        lambda: [watch.set_position("rl", 2, 9, "réward"), watch.set_outcome({"exit_code": 3})]
    )

    assert watch.position() == {"phase": "rl", "step": 2, "steps": 9, "stage": "réward"}
    assert watch.outcome() == {"exit_code": 3}


def test_a_run_that_has_said_nothing_is_nowhere():
    watch = SharedStatus()

    watch.set_stage("writing the record")

    assert (watch.position(), watch.outcome(), watch.signals, watch.supervised) == (
        {},
        {},
        0,
        False,
    )


def test_what_a_run_does_changes_and_its_step_stays():
    watch = SharedStatus()
    watch.set_position("rl", 2, 9, "a reward of many words")

    watch.set_stage("logging")

    assert watch.position() == {"phase": "rl", "step": 2, "steps": 9, "stage": "logging"}


def test_signals_are_counted_across_processes():
    watch = SharedStatus()

    def count():
        watch.signals += 1

    in_another_process(count)
    count()

    assert watch.signals == 2
    watch.signals = 300
    assert watch.signals == 255


def test_the_longest_verdict_fits():
    watch = SharedStatus()
    told = {"error": "\x1b" * 8000, "traceback": "\x1b" * 32000}

    watch.set_outcome(told)

    assert watch.outcome() == told


def test_a_place_in_words():
    assert describe_position({"phase": "rl", "step": 2, "steps": 9, "stage": "x"}) == (
        "in stage 'x', phase 'rl', step 2 of 9"
    )


FULL = OSError(errno.ENOSPC, "No space left on device")
GONE = FileNotFoundError(errno.ENOENT, "No such file")


@pytest.mark.parametrize(
    "error", [FULL, BrokenPipeError(), PermissionError(errno.EACCES, "Permission denied")]
)
def test_a_disk_that_takes_no_more_is_told_with_the_remedy(error):
    with (
        pytest.raises(StorageError, match="once there is room, ") as told,
        storage_errors("x", SharedStatus()),
    ):
        raise error
    assert RESUME_REMEDY in str(told.value)
    assert told.value.__cause__ is error


@pytest.mark.parametrize("cause", [FULL, SafetensorError("I/O error")])
def test_a_checkpoint_that_cannot_be_written_is_told_by_its_cause(cause):
    with (
        pytest.raises(StorageError, match=r"no checkpoint, .*once there"),
        storage_errors("x", SharedStatus()),
    ):
        raise CheckpointError("no checkpoint") from cause


def test_of_a_folder_that_has_vanished_the_remedy_is_another():
    with (
        pytest.raises(StorageError, match="directory deleted") as told,
        storage_errors("x", SharedStatus()),
    ):
        raise GONE
    assert RESUME_REMEDY not in str(told.value)
    with (
        pytest.raises(StorageError, match="was the directory deleted"),
        storage_errors("x", SharedStatus()),
    ):
        raise CheckpointError("none") from GONE


@pytest.mark.parametrize(
    "error",
    [
        OSError("of a library"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        TimeoutError(errno.ETIMEDOUT, "timed out"),
        CheckpointError("of another run"),
        ValueError("3"),
    ],
)
def test_what_is_no_fault_of_the_disk_stays_as_it_is(error):
    with pytest.raises(type(error)) as told, storage_errors("x", SharedStatus()):
        raise error
    assert told.value is error


def test_what_is_written_is_what_the_run_is_doing():
    watch = SharedStatus()
    watch.set_position("one", 2, 9, "reward")

    with storage_errors("the record", watch):
        assert watch.position()["stage"] == "writing the record"
    stage = "stage 'writing x', phase 'one', step 2 of 9"
    with pytest.raises(StorageError, match=stage), storage_errors("x", watch):
        raise FULL
