"""What is told where a run cannot write, and what goes on as it is."""

import errno

import pytest
from safetensors import SafetensorError

from rlcomp.errors import CheckpointError, StorageError
from rlcomp.files.shared_status import SharedStatus
from rlcomp.files.storage_errors import GO_ON, storage_errors

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
    assert GO_ON in str(told.value)
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
    assert GO_ON not in str(told.value)
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
    watch.at("one", 2, 9, "reward")

    with storage_errors("the record", watch):
        assert watch.place()["stage"] == "writing the record"
    stage = "stage 'writing x', phase 'one', step 2 of 9"
    with pytest.raises(StorageError, match=stage), storage_errors("x", watch):
        raise FULL
