"""Status of a run in memory shared with its supervisor, and storage errors with the position."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from safetensors import SafetensorError

from rlcomp.errors import CheckpointError, StorageError

RESUME_REMEDY = (
    "the same command with its directory and resume=auto goes on from the last checkpoint "
    "(overwrite=true begins anew where none was written yet)"
)


class SharedStatus:
    """Memory that a run shares with its supervisor and that outlives the run's process.

    The run writes its position and its outcome; the supervisor writes the number of signals.

    Args:
        supervised: whether a supervisor answers signals and reports the outcome.
    """

    def __init__(self, *, supervised: bool = False) -> None:
        self.supervised = supervised
        self._signals = mmap.mmap(-1, 1)
        self._position = _SharedObject(4096)
        self._outcome = _SharedObject(1 << 18)

    @property
    def signals(self) -> int:
        """Return the number of signals that the supervisor has received, at most 255."""
        return self._signals[0]

    @signals.setter
    def signals(self, count: int) -> None:
        self._signals[0] = min(count, 255)

    def set_position(self, phase: str, step: int, steps: int, stage: str) -> None:
        """Set the position of the run: ``step``, from 1, of the ``steps`` of a phase.

        ``stage`` is a node and its class, or an action of the loop, such as writing the record.
        """
        self._position.write({"phase": phase, "step": step, "steps": steps, "stage": stage})

    def set_stage(self, stage: str) -> None:
        """Set the stage; phase and step stay."""
        if position := self.position():
            self._position.write({**position, "stage": stage})

    def position(self) -> dict[str, object]:
        """Return ``phase``, ``step``, ``steps`` and ``stage``; empty before the first step."""
        return self._position.read()

    def set_outcome(self, outcome: Mapping[str, object]) -> None:
        """Set the outcome of the run (:func:`rlcomp.cli.error_handler.error_report`)."""
        self._outcome.write(outcome)

    def outcome(self) -> dict[str, object]:
        """Return the outcome of the run; empty while it has none."""
        return self._outcome.read()


class _SharedObject:
    """JSON object in memory that forked processes share: four bytes of length, then the text.

    Args:
        size: bytes of the memory.
    """

    def __init__(self, size: int) -> None:
        self.memory = mmap.mmap(-1, size)

    def write(self, value: Mapping[str, object]) -> None:
        text = json.dumps(value).encode()
        self.memory[:4] = bytes(4)  # meanwhile a reader sees no object, not half of one
        self.memory[4 : 4 + len(text)] = text
        self.memory[:4] = len(text).to_bytes(4, "big")

    def read(self) -> dict[str, object]:
        size = int.from_bytes(self.memory[:4], "big")
        value: dict[str, object] = json.loads(self.memory[4 : 4 + size]) if size else {}
        return value


def describe_position(position: Mapping[str, object]) -> str:
    """Describe a position in words.

    Examples:
        >>> describe_position({"phase": "rl", "step": 2, "steps": 9, "stage": "reward (Regex)"})
        "in stage 'reward (Regex)', phase 'rl', step 2 of 9"
        >>> describe_position({})
        'before its first step'
    """
    if not position:
        return "before its first step"
    return "in stage '{stage}', phase '{phase}', step {step} of {steps}".format(**position)


@contextmanager
def storage_errors(content: str, status: SharedStatus) -> Iterator[None]:
    """Turn an error of writing within the context into a ``StorageError``.

    Args:
        content: what is written, such as ``the record``; the stage becomes ``writing the record``.
        status: the status of the run.

    Raises:
        StorageError: a file cannot be written; the message names the file, the position and the
            remedy.
    """
    status.set_stage(f"writing {content}")
    try:
        yield
    except (OSError, CheckpointError) as error:
        cause = error.__cause__ or error
        if not _is_storage_error(cause):
            raise
        remedy = (
            "was the directory deleted or moved? start the run again in one that stays"
            if isinstance(cause, FileNotFoundError)
            else f"once there is room, {RESUME_REMEDY}"
        )
        position = describe_position(status.position())
        raise StorageError(f"{error}, {position}; {remedy}") from error


def _is_storage_error(cause: BaseException) -> bool:
    """Return whether writing a file failed; errors of a tracker's network are no storage errors.

    A broken pipe counts as one, although Python makes it a ``ConnectionError``.
    """
    network = isinstance(cause, (ConnectionError, TimeoutError))
    system = isinstance(cause, OSError) and cause.errno is not None and not network
    return system or isinstance(cause, (BrokenPipeError, SafetensorError))
