"""Data files: rows of JSON Lines and Parquet, and which of their columns make an example.

No torch here, so that a bad file is found before anything heavy is imported.
"""

from __future__ import annotations

import difflib
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, NamedTuple, cast

from rlcomp.data.template import field_names
from rlcomp.errors import ConfigError, DataError, nearest, require

_SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")


class Row(NamedTuple):
    """One row of a data set.

    Attributes:
        place: where it stands, for messages: ``file:line``.
        columns: its values by column.
    """

    place: str
    columns: Mapping[str, object]


class Texts(NamedTuple):
    """The texts of one example, in the order of :class:`rlcomp.interfaces.task.Example`."""

    prompt: str
    answer: str
    demonstration: str


def read_rows(path: str, columns: AbstractSet[str]) -> Iterator[Row]:
    """Every row of a ``.jsonl``, ``.jsonl.gz`` or ``.parquet`` file, one at a time.

    Args:
        path: the file.
        columns: those that are needed; of Parquet, no others are read.

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


def _parquet_rows(file: Path, columns: AbstractSet[str]) -> Iterator[Row]:
    parquet = require("pyarrow.parquet", "data")
    arrow = require("pyarrow", "data")
    number = 0
    try:
        with parquet.ParquetFile(file) as table:
            # Where one is missing, a row is read whole: the message names all columns there are.
            wanted = sorted(columns) if columns <= set(table.schema_arrow.names) else None
            for batch in table.iter_batches(columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    yield Row(f"{file}: row {number}", row)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{file}: cannot be read as Parquet after row {number}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Which columns of a row make an example.

    Attributes:
        prompt_field: column of the question.
        answer_field: column of the gold answer.
        demonstration_field: column of the response to imitate; None: the answer itself.
        answer_pattern: regular expression whose group 1 is the answer inside its column.
        prompt_template: the prompt's wording, ``{prompt}`` and any ``{column}`` filled in.

    Raises:
        ConfigError: the pattern or the template cannot be used.
    """

    prompt_field: str
    answer_field: str
    demonstration_field: str | None
    answer_pattern: str | None
    prompt_template: str

    def __post_init__(self) -> None:
        if self.answer_pattern is not None:
            _check_pattern(self.answer_pattern)
        _template_names(self.prompt_template)

    @property
    def columns(self) -> set[str]:
        """Those that :meth:`texts` looks at."""
        named = _template_names(self.prompt_template) - {"prompt"}
        columns = named | {self.prompt_field, self.answer_field}
        return columns if self.demonstration_field is None else columns | {self.demonstration_field}

    def texts(self, rows: Iterable[Row]) -> list[Texts]:
        """The texts of every row.

        Raises:
            ConfigError: the template names a column that a row does not have.
            DataError: a row lacks a column, holds no text there, or its answer does not match.
        """
        return [self._texts(row) for row in rows]

    def _texts(self, row: Row) -> Texts:
        answer = _text(row, self.answer_field)
        demonstration = answer
        if self.answer_pattern is not None:
            answer = self._matched(row, answer)
            demonstration = answer
        if self.demonstration_field is not None:
            demonstration = _text(row, self.demonstration_field)
        return Texts(self._prompt(row), answer, demonstration)

    def _matched(self, row: Row, text: str) -> str:
        match = re.search(cast("str", self.answer_pattern), text)
        if match is None or match[1] is None:
            raise DataError(
                f"{row.place}: answer_pattern {self.answer_pattern!r} does not match "
                f"{self.answer_field!r}, which ends in {text[-60:]!r}"
            )
        return match[1]

    def _prompt(self, row: Row) -> str:
        values = {"prompt": _text(row, self.prompt_field)}
        for name in _template_names(self.prompt_template) - {"prompt"}:
            if name not in row.columns:
                raise ConfigError(
                    f"prompt_template names {{{name}}}, but {row.place} has no such column"
                    f"{nearest(name, ['prompt', *row.columns])}"
                )
            values[name] = _text(row, name)
        return self.prompt_template.format_map(values)


def _check_pattern(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ConfigError(f"answer_pattern {pattern!r} is no regular expression: {error}") from None
    if groups < 1:
        raise ConfigError(
            f"answer_pattern {pattern!r} has no group: put the answer in parentheses, as in "
            r"'####\s*(.+?)\s*$'"
        )


def _template_names(template: str) -> set[str]:
    return field_names("prompt_template", template, "{prompt} and {column}")


def _text(row: Row, column: str) -> str:
    if column not in row.columns:
        raise DataError(
            f"{row.place}: the row has no column {column!r}{nearest(column, row.columns)}"
        )
    value = row.columns[column]
    if isinstance(value, (float, Decimal)) and math.isfinite(value):
        return _positional(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        shown = "empty (null)" if value is None else f"the {type(value).__name__} {value!r:.60}"
        raise DataError(f"{row.place}: column {column!r} is {shown}, not a text or a finite number")
    # A lone surrogate cannot be UTF-8; the batch holds UTF-8.
    return value.encode("utf-8", "replace").decode("utf-8")


def _positional(value: float | Decimal) -> str:
    """A number as people write it.

    Examples:
        >>> [_positional(value) for value in (72.0, 1e22, 1e-7, 2.50)]
        ['72', '10000000000000000000000', '0.0000001', '2.5']
    """
    text = f"{Decimal(str(value)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def hub_rows(name: str, subset: str | None, split: str, columns: AbstractSet[str]) -> Iterator[Row]:
    """Every row of a split of a Hugging Face data set, or of a local file, one at a time.

    Args:
        name: the data set, or a file of :func:`read_rows`.
        subset: which of its configurations.
        split: which part of it.
        columns: those that are needed; no others are decoded.

    Raises:
        DataError: there is no such data set, subset or split; while iterating: empty.
        MissingExtra: ``datasets`` is not installed.
    """
    if Path(name).expanduser().is_file():
        return read_rows(name, columns)
    datasets = require("datasets", "data")
    try:
        table = datasets.load_dataset(name, subset, split=split)
    except (datasets.exceptions.DatasetsError, OSError, ValueError) as error:
        raise DataError(f"data set {name!r}, split {split!r} cannot be loaded: {error}") from error
    if columns <= set(table.column_names):
        table = table.select_columns(sorted(columns))
    rows = (Row(f"{name}[{split}] row {number}", row) for number, row in enumerate(table, start=1))
    return _some(rows, f"data set {name!r}, split {split!r} is empty: it has no rows")
