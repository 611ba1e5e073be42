"""Folders of models and tokenizers that others wrote: where they are, and what is never run."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import constants, get_session, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

from rlcomp.errors import ConfigErrors, DataError, RlcompError, in_one_line
from rlcomp.io.strict_json import bounded, parse_json
from rlcomp.wiring.base_model import is_folder_name

# What transformers reads in a folder, beside weights and templates.
_JSON = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "model.safetensors.index.json",
)
# Bytes. Tokenizers of 250,000 tokens have some 30 million.
_LARGEST = 1 << 27
# Seconds until the hub has answered.
_PATIENCE = 5


def local_only(path: str) -> bool:
    """Whether files must be on this machine: a folder is named, or Hugging Face is set offline.

    Raises:
        DataError: the path can only be a folder, and there is none.
    """
    if Path(path).is_dir():
        return True
    if is_folder_name(path):
        raise DataError(f"'{path}' is not a folder: write the path of one, or a hub name")
    offline = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return any(value.upper() in {"1", "ON", "YES", "TRUE"} for value in offline) or not reachable()


@functools.cache
def reachable() -> bool:
    """Whether the Hugging Face hub answers at all: asked once, for its client asks for a minute."""
    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception:  # its HTTP library has errors of its own
        return False
    return True


def check_at_hand(named: Mapping[str, str]) -> None:
    """Refuse names on the hub that are neither on this machine nor to be had.

    Args:
        named: names or folders, by the setting that names them.

    Raises:
        ConfigErrors: one is a file; the hub cannot be reached, and its files are not in the cache.
    """
    errors = [
        f"{what} is {path!r}, a file: must be a folder of save_pretrained, a run's directory or a "
        f"hub name{_of_file(Path(path), what)}"
        for what, path in named.items()
        if Path(path).is_file()
    ]
    errors += [
        f"{what} is {path!r}: the hub cannot be reached and it is not in the local cache: go "
        f"online, download it (hf download {path}), or set {what}=FOLDER"
        for what, path in named.items()
        if not Path(path).exists() and local_only(path) and not _is_cached(path)
    ]
    if errors:
        raise ConfigErrors(errors)


def _of_file(file: Path, what: str) -> str:
    """What to do about a file where a folder is due, as the end of a message."""
    if (file.parent / "config.json").is_file():
        return f"; set {what}={file.parent}"
    if file.suffix == ".gguf":
        return (
            "; GGUF is for inference: take the model's repository with safetensors, "
            f"hf download OWNER/NAME --local-dir FOLDER, then {what}=FOLDER"
        )
    return f"; put it into a folder with its config.json and tokenizer, then {what}=FOLDER"


def _is_cached(name: str) -> bool:
    files = ("config.json", "tokenizer.json", "tokenizer_config.json")
    try:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in files)
    except HFValidationError:  # no name at all: its reader will say so
        return True


@contextmanager
def foreign(path: str, told: str, remedy: str) -> Iterator[None]:
    """Context in which transformers reads a folder: whatever it cannot read is one message.

    Its readers take what they find for what they expect, and raise errors of any kind. The JSON
    files of a folder are checked first.

    Args:
        path: a folder, or a name on the Hugging Face hub.
        told: what cannot be read, ``no tokenizer at 'DIR'``.
        remedy: what to do.

    Raises:
        DataError: the folder cannot be read, or brings code of its own.
    """
    try:
        for name in _JSON:
            if (Path(path) / name).exists():
                json_object(Path(path) / name)
        yield
    except RlcompError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # the Rust of tokenizers panics with no Exception
        _refuse_own_code(path, error)
        raise DataError(f"{told} ({in_one_line(error)}): {remedy}") from error


def json_object(file: Path) -> dict[str, Any]:
    """The object in a JSON file of a folder.

    Raises:
        DataError: it holds none, a name twice or NaN, or is larger than 128 MiB or too deep.
    """
    try:
        found = parse_json(bounded(file, _LARGEST), constant=_no_nan)
        if not isinstance(found, dict):
            raise TypeError(f"it holds {found!r:.40}, no object {{...}}")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(
            f"{file} cannot be read ({in_one_line(error)}): mend it, or take it from where it came "
            "from again"
        ) from error
    return found


def _no_nan(text: str) -> float:
    if text == "NaN":
        raise ValueError("it has a NaN")
    return float(text)  # an infinity stands for no limit


def _refuse_own_code(path: str, error: BaseException) -> None:
    """Say so where transformers would run code that came with a model.

    Raises:
        DataError: it would; rlcomp never does.
    """
    if "trust_remote_code" in str(error):
        raise DataError(
            f"'{path}' brings code of its own (auto_map in its config), which rlcomp never runs: "
            "use a model of an architecture that transformers has"
        ) from error
