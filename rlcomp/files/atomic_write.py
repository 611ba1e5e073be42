"""Atomic writes: a file is written whole or not at all, and never through a link."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Yield a draft beside ``file`` that replaces ``file`` at the end of the context.

    On an exception the draft is deleted and ``file`` keeps its content. The directory is untrusted:
    links in it are replaced, and their targets are not touched. The content is not flushed to disk
    (:func:`sync`).
    """
    draft = file.with_name(f".tmp-{file.name}")
    delete_path(draft)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    try:
        yield draft
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def delete_path(path: Path) -> None:
    """Delete a directory, file or link, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def delete_drafts(directory: Path) -> None:
    """Delete the drafts of checkpoints of a killed run; only directories are drafts."""
    for draft in directory.glob(".tmp-step-*"):
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft)


def sync(path: Path) -> None:
    """Flush the content of a file, or the names in a directory, to disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
