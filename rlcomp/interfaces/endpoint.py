"""Interface of endpoints: models on a server that answer texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Reply(NamedTuple):
    """Reply of a model.

    Attributes:
        text: its answer.
        first: probability by token of the likeliest first tokens; None if the server gave none.
    """

    text: str
    first: Mapping[str, float] | None = None


class Endpoint(Protocol):
    """Server that answers several texts at a time."""

    def ask(
        self, prompts: Sequence[str], *, max_tokens: int, alternatives: int = 0
    ) -> list[Reply | None]:
        """Return one reply for each prompt; None for a prompt without one.

        Args:
            prompts: the questions.
            max_tokens: largest number of tokens of an answer.
            alternatives: number of likeliest first tokens in the reply.
        """
        ...
