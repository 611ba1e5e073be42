"""Silence of other libraries: progress bars of transformers, notes of bitsandbytes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def only_errors(logger: str) -> Iterator[None]:
    """Context in which a library logs errors only; its level is as before behind it.

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
    """Context without progress bars; whether there are some is as before behind it."""
    from transformers.utils import logging as bars  # not before it is needed: it is slow

    enabled = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            bars.enable_progress_bar()
