"""Interface of endpoints: models on a server that answer texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Reply(NamedTuple):
    """What a model said.

    Attributes:
        text: its answer.
        first: probability by token of the likeliest first tokens; None where the server told none.
    """

    text: str
    first: Mapping[str, float] | None = None


class Endpoint(Protocol):
    """Answers texts, several at a time."""

    def ask(
        self, prompts: Sequence[str], *, max_tokens: int, alternatives: int = 0
    ) -> list[Reply | None]:
        """One reply for each prompt; None where none came.

        Args:
            prompts: what is asked.
            max_tokens: the longest answer.
            alternatives: how many of the likeliest first tokens the reply tells.
        """
        ...
