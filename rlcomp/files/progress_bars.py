"""Contexts that silence other libraries: progress bars of transformers, logs of bitsandbytes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def only_errors(logger: str) -> Iterator[None]:
    """Let a library log errors only within a context; restore its level behind it.

    Args:
        logger: the name of its logger.
    """
    library = logging.getLogger(logger)
    level = library.level
    library.setLevel(logging.ERROR)
    try:
        yield
    finally:
        library.setLevel(level)


@contextlib.contextmanager
def no_progress_bars() -> Iterator[None]:
    """Disable progress bars within a context; restore the setting behind it."""
    from transformers.utils import logging as bars  # imported here because it is slow

    enabled = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            bars.enable_progress_bar()
