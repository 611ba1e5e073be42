"""Files that are written whole or not at all, and never through a link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def draft_of(file: Path) -> Iterator[Path]:
    """Context with a new file beside ``file``, which takes its place when the context is left.

    A directory may come from a stranger, with links in the places where a run writes: what they
    lead to is not touched. On an exception the draft is deleted and ``file`` stays as it was; one
    that a kill has left is replaced by the next.
    """
    draft = file.with_name(f".tmp-{file.name}")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    try:
        yield draft
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)
