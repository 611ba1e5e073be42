"""Data sets: rows of JSON Lines, Parquet and the Hugging Face hub.

This module does not import torch, so that a bad file is reported before slow imports.
"""

from __future__ import annotations

import difflib
import glob
import gzip
import json
import re
import warnings
import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from rlcomp.errors import DataError, RlcompWarning, require

# In bytes; a whole line is held in memory.
_LONGEST_LINE = 64 << 20
# An archive may unpack to this multiple of its size, and in any case to this many bytes. JSON
# unpacks to about ten times its size; a far larger multiple is an attack on memory.
_LARGEST_RATIO, _ALWAYS_ALLOWED = 200, 1 << 30
# Rows that Parquet unpacks at once, and the most bytes of the columns of a row group.
_ROWS_AT_ONCE, _LARGEST_GROUP = 1024, 1 << 32
_SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")

# A path with one of these endings is a file, not a data set of the hub.
_FILE_NAME = re.compile(
    r"\.(arrow|bz2|csv|gz|jsonl?|parquet|tsv|txt|xz|ya?ml|zip|zst)$", re.IGNORECASE
)


class Row(NamedTuple):
    """One row of a data set.

    Attributes:
        place: its location, for messages: ``file:line``, or the number of the row where a data set
            has no lines.
        columns: its values by column.
    """

    place: str
    columns: Mapping[str, object]


def read_rows(path: str, columns: AbstractSet[str] | None = None) -> Iterator[Row]:
    """Yield the rows of a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file, one at a time.

    Args:
        path: the file, or a pattern such as ``shards/*.jsonl``: the files are read in the order of
            their names.
        columns: the columns to read from Parquet; None: all.

    Raises:
        DataError: the file is missing or of another kind; while iterating: empty, malformed or too
            large.
        MissingExtra: the file is Parquet, and pyarrow is not installed.
    """
    file = Path(path).expanduser()
    if not file.exists() and (files := sorted(glob.glob(str(file)))):
        return chain.from_iterable(read_rows(match, columns) for match in files)
    if not file.exists():
        raise DataError(f"there is no file {path!r}{_suggest_path(file)}")
    if not file.is_file() or not file.name.endswith(_SUFFIXES):
        from rlcomp.advice.format_hints import conversion_hint

        raise DataError(
            f"{path!r} is not a file of a known kind ({', '.join(_SUFFIXES)})"
            f"{conversion_hint(path, _SUFFIXES)}"
        )
    rows = _parquet_rows(file, columns) if file.suffix == ".parquet" else _json_rows(file)
    return _refuse_empty(rows, f"{path!r} is empty: it has no rows; set another path")


# The most files in a message.
_MAX_LISTED = 5


def _refuse_empty(rows: Iterable[Row], message: str) -> Iterator[Row]:
    """Yield the rows; refuse an empty file."""
    row = None
    for row in rows:
        yield row
    if row is None:
        raise DataError(message)


def _suggest_path(file: Path) -> str:
    """Return a suggestion for a file that does not exist."""
    path, folder = file, file.parent
    while not folder.is_dir():  # up to the first folder that exists
        file, folder = folder, folder.parent
    available = sorted(
        entry.name for entry in folder.iterdir() if _is_candidate(entry, file is path)
    )
    close = difflib.get_close_matches(file.name, available, n=1)
    if close:
        return f"; did you mean {str(folder / close[0])!r}?"
    if re.fullmatch(r"\w[\w-]*/\w[\w.-]*", str(path)) and not (
        path.parent.exists() or _FILE_NAME.search(path.name)
    ):
        return f"; a data set of the Hugging Face hub is task=hub task.name={path}"
    hint = f": the folder {str(folder)!r} has nothing of a similar name; set another path"
    files = sorted(entry.name for entry in folder.iterdir() if _is_candidate(entry, True))
    more = ", …" if len(files) > _MAX_LISTED else ""
    return f"{hint}, such as one of {', '.join(files[:_MAX_LISTED])}{more}" if files else hint


def _is_candidate(entry: Path, is_file: bool) -> bool:
    """Return whether an entry can be suggested: a file of rows for a file, else a folder."""
    return (entry.is_file() and entry.name.endswith(_SUFFIXES)) if is_file else entry.is_dir()


def _json_rows(file: Path) -> Iterator[Row]:
    repeated: list[str] = []
    for number, line in enumerate(_lines(file), start=1):
        place = f"{file}:{number}"
        text = _decode_line(place, line.removeprefix(BOM_UTF8) if number == 1 else line)
        if text.strip():
            yield Row(place, _json_row(place, text, repeated, file if number == 1 else None))
    if repeated:
        warnings.warn(
            f"{file}: rows with a column twice, whose last value counts: {len(repeated)} (first: "
            f"{repeated[0]})",
            RlcompWarning,
            stacklevel=2,
        )


def _lines(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked, within the limits of a line and of an archive."""
    number, total = 0, 0
    try:
        most = max(_LARGEST_RATIO * file.stat().st_size, _ALWAYS_ALLOWED)
        with cast(
            "IO[bytes]", gzip.open(file) if file.suffix == ".gz" else file.open("rb")
        ) as data:
            while line := data.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise DataError(
                        f"{file}:{number}: the line is longer than {_LONGEST_LINE >> 20} MiB: each "
                        "line must be one row; cut it, or save the rows as Parquet"
                    )
                total += len(line)
                if file.suffix == ".gz" and total > most:
                    raise DataError(
                        f"{file}: it unpacks to more than {_LARGEST_RATIO} times its size: if that "
                        "is right, unpack it yourself"
                    )
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: cannot be read after line {number}: {error}") from error


def _decode_line(place: str, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{place}: byte {error.start + 1} of the line ({line[error.start]:#04x}) is not UTF-8: "
            "save the file as UTF-8"
        ) from error


def _json_row(place: str, line: str, repeated: list[str], file: Path | None) -> dict[str, object]:
    """Return the row of a line; add its place to ``repeated`` if a name occurs twice in an object.

    ``file`` is the file if this is its first line, for a hint in the message.
    """

    def columns_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
        entries = dict(pairs)
        if len(entries) < len(pairs) and repeated[-1:] != [place]:
            repeated.append(place)
        return entries

    try:
        columns = json.loads(line, object_pairs_hook=columns_of)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{place}: not JSON: {error}; each line must be one object{_first_line_hint(file)}"
        ) from error
    if not isinstance(columns, dict):
        raise DataError(
            f"{place}: {line.strip()[:60]!r} is not an object {{column: value, ...}}"
            f"{_first_line_hint(file)}"
        )
    return columns


def _first_line_hint(file: Path | None) -> str:
    """Return a remedy for a file whose first line is no row, such as JSON over several lines."""
    from rlcomp.advice.format_hints import json_hint

    hint = file and file.suffix == ".jsonl" and json_hint(str(file))
    return f" ({hint})" if hint else ""


def _parquet_rows(file: Path, columns: AbstractSet[str] | None) -> Iterator[Row]:
    parquet = require("pyarrow.parquet", "data")
    arrow = require("pyarrow", "data")
    number = 0
    try:
        with parquet.ParquetFile(file) as table:
            # If a column is missing, read all columns, so that the message can name them.
            available = table.schema_arrow.names
            needed_columns = (
                sorted(columns) if columns is not None and columns <= {*available} else None
            )
            _check_parquet(file, table, {*(needed_columns or available)})
            for batch in table.iter_batches(columns=needed_columns, batch_size=_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield Row(f"{file}: row {number}", row)
    # ValueError, OverflowError: bad UTF-8, or numbers that Python cannot hold.
    except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{file}: cannot be read as Parquet after row {number}: {error}") from error


def _check_parquet(file: Path, table: Any, needed_columns: AbstractSet[str]) -> None:  # noqa: ANN401
    """Refuse a duplicate column, and a row group that does not fit into memory."""
    counts = Counter(table.schema_arrow.names)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise DataError(f"{file}: it has the column {repeated[0]!r:.60} twice: rename one of them")
    for number in range(table.metadata.num_row_groups):
        group = table.metadata.row_group(number)
        chunks = [group.column(index) for index in range(group.num_columns)]
        needed = [
            chunk for chunk in chunks if chunk.path_in_schema.partition(".")[0] in needed_columns
        ]
        size = sum(chunk.total_uncompressed_size for chunk in needed)
        if size > _LARGEST_GROUP:
            raise DataError(
                f"{file}: row group {number + 1} has {size:,} bytes, unpacked, more than "
                f"{_LARGEST_GROUP:,}: write it with smaller groups (row_group_size)"
            )


def hub_rows(name: str, subset: str | None, split: str) -> Iterator[Row]:
    """Yield the rows of a split of a Hugging Face data set, or of a local file, one at a time.

    Columns of images, sounds and videos are left out: they would have to be decoded.

    Args:
        name: the data set, or a file for :func:`read_rows`.
        subset: configuration of the data set.
        split: split of the data set.

    Raises:
        DataError: the data set cannot be loaded; while iterating: it is empty.
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
    readable = [column for column, kind in table.features.items() if not isinstance(kind, media)]
    table = table.select_columns(readable)
    rows = (Row(f"{name}[{split}] row {number}", row) for number, row in enumerate(table, start=1))
    return _refuse_empty(rows, f"data set {name!r}, split {split!r} is empty: it has no rows")
