"""Writing what a run leaves: a full disk or a vanished directory is told with place and remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from safetensors import SafetensorError

from rlcomp.errors import CheckpointError, StorageError
from rlcomp.files.shared_status import SharedStatus, describe_place

# What to do about a run that ended within.
GO_ON = (
    "the same command with its directory and resume=auto goes on from the last checkpoint "
    "(overwrite=true begins anew where none was written yet)"
)


@contextmanager
def storage_errors(what: str, watch: SharedStatus) -> Iterator[None]:
    """Context in which something is written.

    Args:
        what: as the stage of the run.
        watch: knows the step.

    Raises:
        StorageError: it cannot be written; names the file, the step and the remedy.
    """
    watch.doing(f"writing {what}")
    try:
        yield
    except (OSError, CheckpointError) as error:
        cause = error.__cause__ or error
        if not _of_storage(cause):
            raise
        remedy = (
            "was the directory deleted or moved? start the run again in one that stays"
            if isinstance(cause, FileNotFoundError)
            else f"once there is room, {GO_ON}"
        )
        told = f"{error}, {describe_place(watch.place())}; {remedy}"
        raise StorageError(told) from error


def _of_storage(cause: BaseException) -> bool:
    """Whether a file could not be written; a tracker's network is another thing."""
    network = isinstance(cause, (ConnectionError, TimeoutError))
    broken = isinstance(cause, OSError) and cause.errno is not None and not network
    return broken or isinstance(cause, (BrokenPipeError, SafetensorError))
