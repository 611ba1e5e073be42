"""Progress bars of transformers, which would be drawn each time that weights change hands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def no_progress_bars() -> Iterator[None]:
    """Context without progress bars; whether there are some is as before behind it."""
    from transformers.utils import logging  # not before it is needed: it is slow to import

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
