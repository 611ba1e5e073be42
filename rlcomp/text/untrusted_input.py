"""Limits on untrusted input: files of a folder, and calls in a worker process."""

from __future__ import annotations

import functools
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from rlcomp.errors import DataError, in_one_line
from rlcomp.files.untrusted import parse_json, read_bounded
from rlcomp.workers.executor import FailedCall
from rlcomp.workers.pool import WorkerPool

# Files that transformers reads in a folder, besides weights and templates.
JSON_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "model.safetensors.index.json",
)
TOKENIZER = "tokenizer.json"
# In bytes. Tokenizers of 250,000 tokens have some 30 million, indices of 1,000 shards ten.
_LARGEST_TOKENIZER, _LARGEST_JSON = 1 << 27, 1 << 24
# Bytes of a template; the largest ones of models have some 20,000.
LARGEST_TEMPLATE = 1 << 18
# Largest size in bytes, by name or else by suffix; other files have no limit.
_LARGEST = {
    **dict.fromkeys(JSON_FILES, _LARGEST_JSON),
    **dict.fromkeys((TOKENIZER, "vocab.txt", "merges.txt"), _LARGEST_TOKENIZER),
    **dict.fromkeys((".model", ".tiktoken"), _LARGEST_TOKENIZER),
    ".jinja": LARGEST_TEMPLATE,
}
# Limit of the entries of a folder that are checked.
_MOST_ENTRIES = 10_000
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular(folder: Path) -> None:
    """Raise DataError if a file of a folder is not regular, or too large to be read.

    A link counts as its target; a broken one is left to the file's reader.
    """
    for file in _entries(folder):
        try:
            status = file.stat()
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            continue
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
            raise DataError(
                f"{file} is {kind}{_link_target(file)}, but only regular files of a model's folder "
                "are read: put a copy of the file there, or delete it"
            )
        largest = _LARGEST.get(file.name, _LARGEST.get(file.suffix, status.st_size))
        if status.st_size > largest:
            raise DataError(
                f"{file} cannot be read: it is larger than {largest:,} bytes: take the file that "
                "belongs to the model"
            )


def _entries(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that transformers may read."""
    for place in (folder, folder / "additional_chat_templates"):
        if place.is_dir():
            yield from islice(place.iterdir(), _MOST_ENTRIES)


def _link_target(file: Path) -> str:
    """Return the target of a link in parentheses; '' for other files."""
    return f" ({file.resolve()})" if file.is_symlink() else ""


def json_object(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a folder.

    DataError if the file cannot be read, is too large or too deep, if it holds something other than
    an object, if a name is in it twice, if it has a NaN, or (except in ``tokenizer.json``) if it
    has a text longer than any template.
    """
    try:
        value = parse_json(
            read_bounded(file, _LARGEST.get(file.name, _LARGEST_JSON)), constant=_no_nan
        )
        if not isinstance(value, dict):
            raise TypeError(f"it holds {value!r:.40}, no object {{...}}")
        if file.name != TOKENIZER:
            _check_texts(value)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(
            f"{file} cannot be read ({in_one_line(error)}): mend it, or copy it again from its "
            "source"
        ) from error
    return value


def _check_texts(value: object) -> None:
    """Refuse a text that is longer than any template: as a special token it would take minutes."""
    if isinstance(value, str) and len(value) > LARGEST_TEMPLATE:
        raise ValueError(f"it has a text of {len(value):,} characters: {value:.20}...")
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_texts(item)


def _no_nan(text: str) -> float:
    if text == "NaN":
        raise ValueError("it has a NaN")
    return float(text)  # an infinity stands for no limit


# Memory of the worker process, in GiB.
_GIB = 4.0
# Characters of JSON that a call may return: the longest rendered text (2^24 characters), with each
# character as an escape of six.
_LONGEST = 6 << 24

Value = TypeVar("Value")


def untrusted_call(
    function: str, arguments: Mapping[str, object], *, seconds: float, subject: str, remedy: str
) -> Any:  # noqa: ANN401
    """Call a function in this process's worker process for untrusted input.

    Args:
        function: dotted path of the function.
        arguments: the arguments by name, in the types of JSON.
        seconds: limit of the call.
        subject: the input, for messages: ``the tokenizer.json at 'DIR'``.
        remedy: what the user can do, for messages.

    Raises:
        DataError: a limit was exceeded, the process died, or the function raised an error.
    """
    (outcome,) = _pool(os.getpid()).map(function, [arguments], timeout=seconds)
    if not isinstance(outcome, FailedCall):
        return outcome.value
    limits = {
        "time": f"takes more than {seconds:g} s to read",
        "memory": f"takes more than {_GIB:g} GiB to read",
        "output": f"makes more than {_LONGEST:,} characters",
    }
    fault = limits.get(outcome.kind, f"cannot be read ({outcome.message})")
    raise DataError(f"{subject} {fault}: {remedy}")


@functools.lru_cache(maxsize=1)
def _pool(process: int) -> WorkerPool:
    """Return the pool of a process; a forked process gets a pool of its own."""
    del process
    return WorkerPool(num_workers=1, memory_gib=_GIB, output_limit=_LONGEST)


def call_within(seconds: float, call: Callable[[], Value]) -> Value:
    """Call a function that releases the GIL, such as a tokenizer's, in a thread.

    Signal handlers run in the meantime. TimeoutError after ``seconds``; the call then goes on until
    the process ends.
    """
    results, errors = list[Value](), list[BaseException]()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"more than {seconds:g} s")
    return results[0]
