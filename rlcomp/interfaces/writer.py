"""Interface of writers: models that answer texts with texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Writer(Protocol):
    """Model that answers texts with texts, such as a judge that explains itself."""

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        """Return one text for each prompt."""
        ...
