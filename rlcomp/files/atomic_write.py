"""Atomic writes: a file is written whole or not at all, and never through a link."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Yield a draft beside ``file``; it replaces ``file`` when the context is left.

    The directory is untrusted and may hold links where a run writes: their targets are not touched.
    On an exception the draft is deleted and ``file`` stays as it was. A draft that a kill has left
    is replaced by the next.
    """
    draft = file.with_name(f".tmp-{file.name}")
    clear(draft)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    try:
        yield draft
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def clear(path: Path) -> None:
    """Delete the directory, file or link at the path of a draft."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def delete_drafts(directory: Path) -> None:
    """Delete the drafts of checkpoints that a kill has left; only directories are drafts."""
    for stale in directory.glob(".tmp-step-*"):
        if stale.is_dir() and not stale.is_symlink():
            shutil.rmtree(stale)


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a directory, are on disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
