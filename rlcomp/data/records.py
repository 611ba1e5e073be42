"""Data sets: rows of JSON Lines, Parquet and the Hugging Face hub.

No torch here, so that a bad file is found before anything heavy is imported.
"""

from __future__ import annotations

import difflib
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import IO, NamedTuple, cast

from rlcomp.errors import DataError, require

_SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")


class Row(NamedTuple):
    """One row of a data set.

    Attributes:
        place: where it stands, for messages: ``file:line``.
        columns: its values by column.
    """

    place: str
    columns: Mapping[str, object]


def read_rows(path: str, columns: AbstractSet[str] | None = None) -> Iterator[Row]:
    """Every row of a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file, one at a time.

    Args:
        path: the file.
        columns: those that are needed, of Parquet no others are read; None: all.

    Raises:
        DataError: the file is missing or of another kind; while iterating: empty or malformed.
        MissingExtra: Parquet, but pyarrow is not installed.
    """
    file = Path(path).expanduser()
    if not file.exists():
        raise DataError(f"there is no file {path!r}{_near(file)}")
    if not file.is_file() or not file.name.endswith(_SUFFIXES):
        raise DataError(f"{path!r} is not a file of a known kind ({', '.join(_SUFFIXES)})")
    rows = _parquet_rows(file, columns) if file.suffix == ".parquet" else _json_rows(file)
    return _some(rows, f"{path!r} is empty: it has no rows; set another path")


def _some(rows: Iterable[Row], otherwise: str) -> Iterator[Row]:
    """The rows; refuse an empty file."""
    row = None
    for row in rows:
        yield row
    if row is None:
        raise DataError(otherwise)


def _near(file: Path) -> str:
    """Suggestion for a file that does not exist."""
    folder = file.parent
    while not folder.is_dir():
        file, folder = folder, folder.parent
    close = difflib.get_close_matches(file.name, [entry.name for entry in folder.iterdir()], n=1)
    if close:
        return f"; did you mean {str(folder / close[0])!r}?"
    return f": the folder {str(folder)!r} has nothing of a similar name; set another path"


def _json_rows(file: Path) -> Iterator[Row]:
    number = 0
    try:
        with _opened(file) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield Row(f"{file}:{number}", _json_row(f"{file}:{number}", line))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read after line {number}: {error}") from error


def _opened(file: Path) -> IO[str]:
    if file.suffix == ".gz":
        return cast("IO[str]", gzip.open(file, "rt", encoding="utf-8-sig"))
    return file.open(encoding="utf-8-sig")


def _json_row(place: str, line: str) -> dict[str, object]:
    try:
        columns = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {error}; each line must be one object") from error
    if not isinstance(columns, dict):
        raise DataError(f"{place}: {line.strip()[:60]!r} is not an object {{column: value, ...}}")
    return columns


def _parquet_rows(file: Path, columns: AbstractSet[str] | None) -> Iterator[Row]:
    parquet = require("pyarrow.parquet", "data")
    arrow = require("pyarrow", "data")
    number = 0
    try:
        with parquet.ParquetFile(file) as table:
            # Where one is missing, a row is read whole: the message names all columns there are.
            there = set(table.schema_arrow.names)
            wanted = sorted(columns) if columns is not None and columns <= there else None
            for batch in table.iter_batches(columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    yield Row(f"{file}: row {number}", row)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{file}: cannot be read as Parquet after row {number}: {error}") from error


def hub_rows(name: str, subset: str | None, split: str) -> Iterator[Row]:
    """Every row of a split of a Hugging Face data set, or of a local file, one at a time.

    Without images and sounds, which would have to be decoded.

    Args:
        name: the data set, or a file of :func:`read_rows`.
        subset: which of its configurations.
        split: which part of it.

    Raises:
        DataError: there is no such data set, subset or split; while iterating: empty.
        MissingExtra: ``datasets`` is not installed.
    """
    if Path(name).expanduser().is_file():
        return read_rows(name)
    datasets = require("datasets", "data")
    try:
        table = datasets.load_dataset(name, subset, split=split)
    except (datasets.exceptions.DatasetsError, OSError, ValueError) as error:
        raise DataError(f"data set {name!r}, split {split!r} cannot be loaded: {error}") from error
    media = (datasets.Image, datasets.Audio, datasets.Video)
    kept = [name for name, kind in table.features.items() if not isinstance(kind, media)]
    table = table.select_columns(kept)
    rows = (Row(f"{name}[{split}] row {number}", row) for number, row in enumerate(table, start=1))
    return _some(rows, f"data set {name!r}, split {split!r} is empty: it has no rows")
