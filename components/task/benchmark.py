"""Task of a public benchmark: a file of problems, located by its usual name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcomp.arguments import NonEmptyText
from rlcomp.data.column_mapping import Fields, RecordTask
from rlcomp.data.column_names import guess_columns, value_at
from rlcomp.data.records import Row, read_rows
from rlcomp.errors import ConfigError, DataError

_SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")


class Benchmark(RecordTask):
    """Task of all rows of a benchmark's file, held out; nothing is downloaded.

    A folder, then each of its subfolders, is searched for the file by its usual names in turn.

    Args:
        path: path of the file; null: search for the file.
        folder: folder to search.
        names: usual names of the file, without ``.jsonl``, ``.jsonl.gz`` or ``.parquet``.
        form: description of a row, for the message about a missing file.
        prompt_fields: possible columns of the question; the first that the file has is used.
        answer_field: column of the gold answer.
        answer_pattern: as in :class:`components.task.file.FileTask`.
        prompt_template: as in :class:`components.task.file.FileTask`.

    Raises:
        ConfigError: the pattern or the template cannot be used, or neither path nor names are set.
        DataError: the file does not exist, or is empty or malformed.
    """

    def __init__(
        self,
        *,
        path: NonEmptyText | None = None,
        folder: NonEmptyText = "data",
        names: list[str],
        form: NonEmptyText,
        prompt_fields: list[str],
        answer_field: NonEmptyText = "answer",
        answer_pattern: NonEmptyText | None = None,
        prompt_template: NonEmptyText = "{prompt}",
    ) -> None:
        self.path = path or str(_find_file(Path(folder).expanduser(), names, form))
        self.input_files = [Path(self.path).expanduser()]
        rows = [*read_rows(self.path)]
        _check_columns(rows[0], prompt_fields, answer_field)
        prompt_field = next(
            (name for name in prompt_fields if _has(rows[0], name)), prompt_fields[0]
        )
        fields = Fields(
            prompt_field=prompt_field,
            answer_field=answer_field,
            demonstration_field=None,
            answer_pattern=answer_pattern,
            prompt_template=prompt_template,
        )
        super().__init__(fields, rows, held_out=1.0)


def _check_columns(row: Row, prompt_fields: Sequence[str], answer_field: str) -> None:
    """Check that the first row has a column of messages, or the columns of question and answer.

    Raises:
        DataError: a column is missing; names the file's columns and the settings of the suite.
    """
    values = [row.columns[name] for name in (*prompt_fields, "messages") if name in row.columns]
    if any(isinstance(value, list) for value in values):
        return  # the last turn of a conversation can be the answer
    missing, missing_settings = [], dict[str, str]()
    if not any(_has(row, name) for name in prompt_fields):
        missing.append(" or ".join(map(repr, prompt_fields)))
        missing_settings["prompt_field"] = prompt_fields[0]
    if not _has(row, answer_field):
        missing.append(repr(answer_field))
        missing_settings["answer_field"] = answer_field
    if missing:
        forms = {"prompt_field": "prompt_fields=[{}]", "answer_field": "answer_field={}"}
        remedies = [
            f"SUITE.task.{forms[setting].format(column or 'COLUMN')}"
            for setting, column in guess_columns(missing_settings, row).items()
        ]
        raise DataError(
            f"{row.place}: the row has no column {' and no column '.join(missing)} (known: "
            f"{', '.join(row.columns)}); set {' '.join(remedies)}, SUITE being the suite's name"
        )


def _has(row: Row, name: str) -> bool:
    return name in row.columns or value_at(row.columns, name) is not None


def _find_file(folder: Path, names: list[str], form: str) -> Path:
    """Return the first file with one of the names in the folder, or else in a subfolder.

    Raises:
        ConfigError: ``names`` is empty.
        DataError: ``folder`` is a file, or no file has one of the names; the message names the
            folder, and the form of a row.
    """
    if not names:
        raise ConfigError(f"path is not set; set path=FILE of problems, whose rows hold {form}")
    if folder.is_file():
        is_usual = any(folder.name == f"{name}{suffix}" for name in names for suffix in _SUFFIXES)
        or_folder = f"data={folder.parent}, or " if is_usual else ""
        raise DataError(
            f"data is a folder, and {str(folder)!r} is a file: {or_folder}set path={folder}"
        )
    subfolders = sorted(path for path in folder.glob("*") if path.is_dir())
    for parent in (folder, *subfolders):
        for name in names:
            for suffix in _SUFFIXES:
                if (file := parent / f"{name}{suffix}").is_file():
                    return file
    missing = "" if folder.is_dir() else " (no such folder)"
    raise DataError(
        f"no file of this benchmark in {str(folder)!r}{missing}; set path=FILE, or data=FOLDER "
        f"with a file named {' or '.join(names)} ({', '.join(_SUFFIXES)}); its rows hold {form}, "
        "and nothing is downloaded"
    )
