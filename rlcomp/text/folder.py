"""Untrusted folders of models and tokenizers: their location, and the refusal of code in them."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import constants, get_session, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

from rlcomp.config.checks.models import is_folder_name
from rlcomp.errors import ConfigErrors, DataError, RlcompError, in_one_line
from rlcomp.text.untrusted_input import (
    JSON_FILES,
    TOKENIZER,
    check_regular,
    json_object,
    untrusted_call,
)

# Seconds that the trial of a tokenizer.json may take; with 250,000 tokens it takes three.
_TRIAL_SECONDS = 30.0
# The hub must answer within these seconds.
_HUB_SECONDS = 5


def local_only(path: str) -> bool:
    """Return whether files must be local.

    They must if the path is a folder, if a variable sets Hugging Face offline, or if the hub does
    not answer. DataError if the path can only be a folder, and does not exist.
    """
    if Path(path).is_dir():
        return True
    if is_folder_name(path):
        raise DataError(f"'{path}' is not a folder: write the path of one, or a hub name")
    offline = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return (
        any(value.upper() in {"1", "ON", "YES", "TRUE"} for value in offline) or not hub_reachable()
    )


@functools.cache
def hub_reachable() -> bool:
    """Return whether the Hugging Face hub answers.

    It is asked once in a process: its client would retry for a long time on each call.
    """
    try:
        get_session().head(constants.ENDPOINT, timeout=_HUB_SECONDS)
    except Exception:  # the hub's HTTP library has errors of its own
        return False
    return True


def check_available(names: Mapping[str, str]) -> None:
    """Check that names on the hub are on this machine or can be downloaded.

    ``names`` are names or folders, by the setting that holds them. ConfigErrors if one is a file,
    or if it is not on this machine and the hub cannot be reached.
    """
    errors = [
        f"{setting} is {path!r}, a file: must be a folder of save_pretrained, a run's directory or "
        f"a hub name{_file_remedy(Path(path), setting)}"
        for setting, path in names.items()
        if Path(path).is_file()
    ]
    errors += [
        f"{setting} is {path!r}: the hub cannot be reached and it is not in the local cache: go "
        f"online, download it (hf download {path}), or set {setting}=FOLDER"
        for setting, path in names.items()
        if not Path(path).exists() and local_only(path) and not _is_cached(path)
    ]
    if errors:
        raise ConfigErrors(errors)


def _file_remedy(file: Path, setting: str) -> str:
    """Return the remedy for a file where a folder is expected, as the end of a message."""
    if (file.parent / "config.json").is_file():
        return f"; set {setting}={file.parent}"
    if file.suffix == ".gguf":
        return (
            "; GGUF is for inference: take the model's repository with safetensors, "
            f"hf download OWNER/NAME --local-dir FOLDER, then {setting}=FOLDER"
        )
    return f"; put it into a folder with its config.json and tokenizer, then {setting}=FOLDER"


def _is_cached(name: str) -> bool:
    files = ("config.json", "tokenizer.json", "tokenizer_config.json")
    try:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in files)
    except HFValidationError:  # no valid name: the reader of the model will report it
        return True


@contextmanager
def folder_errors(path: str, message: str, remedy: str) -> Iterator[None]:
    """Turn any error of transformers, when it reads a folder, into a DataError.

    The readers of transformers do not check their input and raise errors of any kind. The files of
    a folder are checked first (:func:`check_folder`).

    Args:
        path: a folder, or a name on the Hugging Face hub.
        message: the beginning of the error, ``no tokenizer at 'DIR'``.
        remedy: the end of the error.
    """
    try:
        check_folder(Path(path))
        yield
    except RlcompError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # the Rust library tokenizers raises PanicException, which is no Exception
        _refuse_remote_code(path, error)
        raise DataError(f"{message} ({in_one_line(error)}): {remedy}") from error


def check_folder(folder: Path) -> None:
    """Check the files that transformers reads in a folder; a name on the hub has none.

    DataError if one is no regular file, too large, no JSON, or a tokenizer that exceeds limits of
    time and memory.
    """
    if not folder.is_dir():
        return
    check_regular(folder)
    for name in JSON_FILES:
        if (folder / name).exists():
            json_object(folder / name)
    tokenizer = folder / TOKENIZER
    if tokenizer.is_file():
        status = tokenizer.stat()
        _try_tokenizer(str(tokenizer.resolve()), status.st_mtime_ns, status.st_size)
    elif tokenizer.exists():  # a folder of this name
        json_object(tokenizer)  # raises


@functools.lru_cache(maxsize=64)
def _try_tokenizer(file: str, changed: int, size: int) -> None:
    """Raise DataError for the fault of a ``tokenizer.json``, found in the worker process."""
    del changed, size  # keys of the cache
    fault = untrusted_call(
        "rlcomp.text.tokenizer_trial.try_tokenizer",
        {"file": file},
        seconds=_TRIAL_SECONDS,
        subject=file,
        remedy="use the tokenizer.json that belongs to the model",
    )
    if fault is not None:
        raise DataError(str(fault))


def _refuse_remote_code(path: str, error: BaseException) -> None:
    """Raise DataError if transformers would run code that came with a model."""
    if "trust_remote_code" in str(error):
        raise DataError(
            f"'{path}' brings code of its own (auto_map in its config), which rlcomp never runs: "
            "use a model of an architecture that transformers has"
        ) from error
