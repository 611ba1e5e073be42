"""Switch that is on or off within a context, in the thread that set it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ThreadFlag(threading.local):
    """A flag of the thread, off at first.

    Examples:
        >>> flag = ThreadFlag()
        >>> with flag.set(True):
        ...     flag.on
        True
        >>> flag.on
        False
    """

    on = False

    @contextmanager
    def set(self, wanted: bool) -> Iterator[None]:
        """Set the flag within the context."""
        before, self.on = self.on, wanted
        try:
            yield
        finally:
            self.on = before
