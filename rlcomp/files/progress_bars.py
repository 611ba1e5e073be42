"""Contexts that silence the progress bars and logs of other libraries."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def only_errors(logger: str) -> Iterator[None]:
    """Silence all messages of a library's logger but errors, within the context."""
    library = logging.getLogger(logger)
    level = library.level
    library.setLevel(logging.ERROR)
    try:
        yield
    finally:
        library.setLevel(level)


@contextlib.contextmanager
def no_progress_bars() -> Iterator[None]:
    """Disable the progress bars of transformers within the context."""
    from transformers.utils import logging as bars  # imported here because it is slow

    enabled = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            bars.enable_progress_bar()
