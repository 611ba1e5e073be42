"""Record of a run: the lock of its directory, its command line and config, and its failure.

An attempt is one start of a command in the directory of a run. It is accepted when it writes
``run.yaml``, and refused if it fails earlier, such as by an invalid config.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from rlcomp.errors import ConfigError, Interrupted, add_note
from rlcomp.files.atomic_write import atomic_write
from rlcomp.files.shared_status import SharedStatus
from rlcomp.files.untrusted import parse_json, read_bounded

METRICS, SAMPLES = "metrics.jsonl", "samples.jsonl"
# The phases that ended early, a line each.
ENDED = "ended.jsonl"
# Hydra overwrites its own files before an attempt can be refused, so only this record surely
# describes the run.
RUN_RECORD = "run.yaml"
# The failure of the last accepted attempt.
FAILURE = "failure.json"
# Deleted before the failure is written, so that a full disk has room for it.
RESERVED = ".reserved"
# Bytes of the reserved file: enough for a failure, unless JSON escapes many of its characters.
ROOM = 1 << 16
# Limit of bytes to read: a failure has some 40,000 characters, and JSON escapes a character by six
# or twelve bytes.
_MAX_BYTES = 1 << 20
_LOCK = ".lock"

# Describes an exception: ``error``, ``type``, ``exit_code`` and ``traceback``.
ErrorReport = Callable[[BaseException], Mapping[str, object]]


@contextmanager
def directory_lock(directory: str | Path) -> Iterator[None]:
    """Lock a directory; the operating system releases it when the process ends.

    Raises:
        ConfigError: another run holds the lock, or the directory cannot be written.
    """
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # O_NOFOLLOW and no O_TRUNC: the file is untrusted.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        file = os.fdopen(os.open(directory / _LOCK, flags, 0o666), "r+")
    except OSError as error:
        raise ConfigError(f"directory is {directory}: {error}; choose one you can write") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"directory is {directory}, where another run is going on: choose another"
            ) from None
        yield


def is_locked(directory: Path) -> bool:
    """Return whether a process holds the lock of a directory (:func:`directory_lock`)."""
    lock = directory / _LOCK
    if not lock.is_file():
        return False
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@dataclass(frozen=True)
class RunRecord:
    """The requested command line and config of a run.

    Attributes:
        config: None where none was saved.
        overrides: overrides of the command line.
        choices: the option of every config group.
        environment: versions, commits and hardware (:mod:`rlcomp.files.environment`).
    """

    config: DictConfig | None = None
    overrides: list[str] = field(default_factory=list)
    choices: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


def write_run_record(
    config: DictConfig, directory: Path, environment: Mapping[str, str] | None = None
) -> None:
    """Write ``run.yaml``: the run accepts this attempt. Delete an earlier failure.

    Args:
        config: the config of the run.
        directory: the run's directory; it must exist.
        environment: versions and hardware (:func:`rlcomp.files.environment.environment`).
    """
    # Unresolved: the value of an interpolation may be a secret of the environment.
    hydra = HydraConfig.get() if HydraConfig.initialized() else None
    content = {
        "config": OmegaConf.to_container(config, resolve=False),
        "overrides": OmegaConf.to_container(hydra.overrides.task, resolve=False) if hydra else [],
        "choices": chosen_options(),
        "environment": dict(environment or {}),
    }
    with atomic_write(directory / RUN_RECORD) as draft:
        OmegaConf.save(OmegaConf.create(content), draft)
    (directory / FAILURE).unlink(missing_ok=True)


def chosen_options() -> dict[str, Any]:
    """Return the option of every config group of the running job; empty outside of Hydra."""
    if not HydraConfig.initialized():
        return {}
    choices = OmegaConf.to_container(HydraConfig.get().runtime.choices, resolve=False)
    return {str(group): option for group, option in dict(choices).items()}  # type: ignore[arg-type]


def run_record_time(directory: Path) -> int | None:
    """Return the modification time of ``run.yaml`` in nanoseconds; None without one."""
    file = directory / RUN_RECORD
    return file.stat().st_mtime_ns if file.is_file() else None


def read_run_record(directory: Path) -> RunRecord:
    """Return the record of the accepted attempt (``run.yaml``).

    Without ``run.yaml``, the command line and the config of ``.hydra``; without that config, the
    config of the newest checkpoint.
    """
    file = directory / RUN_RECORD
    if file.is_file():
        content: Any = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
        # A separate root: interpolations in the config are relative to it.
        config, environment = DictConfig(content["config"]), content.get("environment") or {}
        return RunRecord(config, content["overrides"], content["choices"], environment)
    hydra = directory / ".hydra"
    checkpoints = sorted((directory / "checkpoints").glob("step-*/config.yaml"), reverse=True)
    configs = [file for file in (hydra / "config.yaml", *checkpoints) if file.is_file()]
    choices = OmegaConf.select(_load(hydra / "hydra.yaml"), "hydra.runtime.choices", default={})
    return RunRecord(
        _load(configs[0]) if configs else None,
        [str(text) for text in _load(hydra / "overrides.yaml")],
        {str(group): str(option) for group, option in choices.items()},
    )


def _load(file: Path) -> Any:  # noqa: ANN401
    return OmegaConf.load(file) if file.is_file() else DictConfig({})


def has_metrics(directory: Path) -> bool:
    """Return whether a directory has metrics of a run, of one step at least."""
    file = directory / METRICS
    return file.is_file() and file.stat().st_size > 0


@contextmanager
def record_failure(directory: Path, status: SharedStatus, report: ErrorReport) -> Iterator[None]:
    """Write ``failure.json`` on an exception; delete an earlier failure's file first.

    Stopping on request is no failure. A directory that another run holds, or that did not exist at
    first, is left alone; a deleted one is created again, with the failure alone. In a run with
    metrics, only an accepted attempt (:func:`write_run_record`) writes and deletes the file. Within
    the context a reserved file (``RESERVED``) keeps room on the disk.

    Args:
        directory: the run's directory.
        status: gives the position of the run.
        report: describes the exception; the file has its entries and the position.
    """
    exists, reserved = directory.is_dir(), directory / RESERVED
    had_metrics, time = has_metrics(directory), run_record_time(directory)
    if exists and not is_locked(directory):
        if not had_metrics:
            (directory / FAILURE).unlink(missing_ok=True)
        # A directory that cannot be written raises its own error later.
        with contextlib.suppress(OSError), atomic_write(reserved) as draft:
            draft.write_bytes(bytes(ROOM))
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        raise
    except BaseException as error:
        refused = had_metrics and run_record_time(directory) == time
        if exists and not refused and not is_locked(directory):
            _write_failure(directory, {**report(error), **status.position()}, error)
        raise
    finally:
        if not is_locked(directory):
            reserved.unlink(missing_ok=True)


def _write_failure(directory: Path, failure: Mapping[str, object], error: BaseException) -> None:
    """Write the failure atomically; an error of writing becomes a note of ``error``."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RESERVED).unlink(missing_ok=True)
        with atomic_write(directory / FAILURE) as draft:
            draft.write_text(json.dumps(failure, indent=1), encoding="utf-8")
    except OSError as write_error:
        add_note(error, f"{directory / FAILURE} cannot be written: {write_error}")


def read_failure(directory: Path) -> str | None:
    """Return the failure of a run as ``type: error``; None if it did not fail.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is larger than 1 MiB, is not JSON or repeats a name.
        RecursionError: the JSON is nested too deeply.
        KeyError: a field is missing.
        TypeError: the file is no JSON object.
    """
    file = directory / FAILURE
    if not file.is_file():
        return None
    failure = parse_json(read_bounded(file, _MAX_BYTES))
    return f"{failure['type']}: {failure['error']}"
