"""Files that are written whole or not at all, and never through a link."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Context with a new file beside ``file``, which takes its place when the context is left.

    A directory may come from a stranger, with links in the places where a run writes: what they
    lead to is not touched. On an exception the draft is deleted and ``file`` stays as it was; one
    that a kill has left is replaced by the next.
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
    """Delete what stands where a draft is to be made: a directory, a file or a link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def delete_drafts(directory: Path) -> None:
    """Delete the drafts of checkpoints that a kill has left; files of such names are no drafts."""
    for stale in directory.glob(".tmp-step-*"):
        if stale.is_dir() and not stale.is_symlink():
            shutil.rmtree(stale)


def sync(path: Path) -> None:
    """Wait until what was written into a file, or a directory's names, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
