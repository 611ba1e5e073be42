"""Text corpora: files as documents with byte offsets; long documents are split.

This module does not import torch, so that a bad file is reported before slow imports.
"""

from __future__ import annotations

import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple, cast

from rlcomp.data.records import Row, read_rows
from rlcomp.errors import DataError, nearest

# Endings of plain texts, and of JSON Lines.
_PLAIN = (".txt", ".txt.gz")
_ROWS = (".jsonl", ".jsonl.gz")
# In unpacked bytes: a corpus is held in memory, and a small archive can unpack to any size.
_LARGEST, _BLOCK = 1 << 30, 1 << 20


class Document(NamedTuple):
    """A piece of a corpus.

    Attributes:
        text: the piece.
        file: the file of the piece; for JSON Lines ``file:line``.
        start: its first byte in that file, unpacked; for JSON Lines, in the line's text.
    """

    text: str
    file: str
    start: int


def read_documents(
    path: Path, *, field: str, separator: str | None, longest: int, shortest: int
) -> list[Document]:
    r"""Read the documents of a file, or of all files below a folder in the order of their names.

    Args:
        path: a ``.txt``, ``.txt.gz``, ``.jsonl`` or ``.jsonl.gz`` file, or a folder; files of other
            kinds in a folder are skipped.
        field: the column of a JSON Lines row that holds its text.
        separator: the text between two documents, such as ``"\n\n"``; it belongs to neither.
            None: a file, or a row of JSON Lines, is one document.
        longest: bytes; a longer document is cut into pieces of at most this size. A cut is after a
            line end or before a space in the second half of a piece, otherwise between two
            characters; no text is lost. At least 4, the bytes of the longest character.
        shortest: bytes; shorter pieces are left out.

    Raises:
        DataError: a file is missing, of another kind, malformed or not UTF-8; or there is no text,
            or more than 1 GiB of it.
    """
    documents = [
        Document(data[start:stop].decode(), place, start)
        for place, data in _texts_within_limit(path, field)
        for start, stop in _ranges(data, separator, longest)
        if stop - start >= shortest
    ]
    if not documents:
        raise DataError(f"'{path}' holds no document of at least {shortest} bytes: nothing to read")
    return documents


def corpus_files(path: Path) -> list[Path]:
    """Return the file at a path, or the files of known kinds below a folder, in order.

    Raises:
        DataError: there is no such file.
    """
    path = path.expanduser()
    known = (*_PLAIN, *_ROWS)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        files = [file for file in files if file.name.endswith(known)]
        if not files:
            raise DataError(f"the folder '{path}' holds no file of a known kind {known}")
        return files
    if not path.is_file():
        raise DataError(f"there is no file or folder '{path}': set another path")
    if not path.name.endswith(known):
        from rlcomp.advice.format_hints import conversion_hint

        hint = (
            conversion_hint(str(path), known) or ": if it is plain text, rename it to end in .txt"
        )
        raise DataError(f"'{path}' is not a file of a known kind {known}{hint}")
    return [path]


def _texts_within_limit(path: Path, field: str) -> Iterator[tuple[str, bytes]]:
    """Yield the texts of all files; refuse more than fit into memory."""
    total = 0
    for file in corpus_files(path):
        for place, data in _texts(file, field):
            total += len(data)
            if total > _LARGEST:
                raise _too_large(file)
            yield place, data


def _too_large(file: Path) -> DataError:
    return DataError(
        f"{file}: with it the corpus has more than {_LARGEST >> 20:,} MiB, unpacked, all in "
        "memory: take a part of it"
    )


def _texts(file: Path, field: str) -> Iterator[tuple[str, bytes]]:
    """Yield the texts of a file, each with its location."""
    if file.name.endswith(_PLAIN):
        yield str(file), _read_plain(file)
        return
    for row in read_rows(str(file), {field}):
        yield row.place, _text_of_row(row, field)


def _read_plain(file: Path) -> bytes:
    """Return the bytes of a plain text file, unpacked; check that they are UTF-8."""
    try:
        with cast("IO[bytes]", gzip.open(file) if file.suffix == ".gz" else file.open("rb")) as raw:
            blocks = iter(partial(raw.read, _BLOCK), b"")
            data = b"".join(islice(blocks, _LARGEST // _BLOCK + 1))
        if len(data) > _LARGEST:
            raise _too_large(file)
        data.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}: byte {error.start} ({error.object[error.start]:#04x}) is not UTF-8: save the "
            "file as UTF-8"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: cannot be read: {error}") from error
    return data


def _text_of_row(row: Row, field: str) -> bytes:
    if field not in row.columns:
        raise DataError(
            f"{row.place}: the row has no column {field!r}{nearest(field, row.columns)}"
        )
    text = row.columns[field]
    if not isinstance(text, str):
        raise DataError(f"{row.place}: column {field!r} is {text!r:.60}, not a text")
    # JSON can spell a lone surrogate, which UTF-8 has no code for.
    return text.encode("utf-8", "replace")


def _ranges(data: bytes, separator: str | None, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges of the pieces."""
    start = len(BOM_UTF8) if data.startswith(BOM_UTF8) else 0
    between = b"" if separator is None else separator.encode()
    for part in data[start:].split(between) if between else [data[start:]]:
        stop = start + len(part)
        while start < stop:
            end = _piece_end(data, start, stop, longest)
            yield start, end
            start = end
        start = stop + len(between)


def _piece_end(data: bytes, start: int, stop: int, longest: int) -> int:
    """Return the end of the piece that begins at ``start`` in a document that ends at ``stop``."""
    if stop - start <= longest:
        return stop
    end, middle = start + longest, start + longest // 2
    line = data.rfind(b"\n", middle, end) + 1
    # Cut before a space: tokens begin with spaces.
    space = data.rfind(b" ", middle + 1, end + 1)
    if line or space > start:
        return line or space
    while data[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return end
