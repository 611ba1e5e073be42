"""Context that turns errors of writing into a ``StorageError`` with place and remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from safetensors import SafetensorError

from rlcomp.errors import CheckpointError, StorageError
from rlcomp.files.shared_status import SharedStatus, describe_place

# The remedy for a run that ended here.
GO_ON = (
    "the same command with its directory and resume=auto goes on from the last checkpoint "
    "(overwrite=true begins anew where none was written yet)"
)


@contextmanager
def storage_errors(what: str, status: SharedStatus) -> Iterator[None]:
    """Turn an error of writing within the context into a ``StorageError``.

    Args:
        what: the thing that is written, shown as the stage of the run.
        status: knows the step.

    Raises:
        StorageError: the file cannot be written; names it, the step and the remedy.
    """
    status.doing(f"writing {what}")
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
        message = f"{error}, {describe_place(status.place())}; {remedy}"
        raise StorageError(message) from error


def _of_storage(cause: BaseException) -> bool:
    """Return whether an error is of writing a file, and not of a tracker's network."""
    network = isinstance(cause, (ConnectionError, TimeoutError))
    broken = isinstance(cause, OSError) and cause.errno is not None and not network
    return broken or isinstance(cause, (BrokenPipeError, SafetensorError))
