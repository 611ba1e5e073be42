"""Prompt formats: how an example's prompt becomes the token ids that a policy reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rlcomp.interfaces.policy import Policy

Columns = Sequence[Mapping[str, object]]
# With a role and a content; a tool's schema.
Message = dict[str, Any]
# A text, or turns of the policy and of an environment, the policy's first.
Response = str | tuple[str, ...]


class Demonstration(NamedTuple):
    """A row to imitate.

    Attributes:
        ids: prompt and response.
        trained: of each, whether the policy wrote it: the response mask, which may have holes.
    """

    ids: list[int]
    trained: list[bool]

    @classmethod
    def of(cls, head: Sequence[int], tail: Sequence[int]) -> Demonstration:
        """Ids that a policy reads, and behind them those that it wrote.

        Examples:
            >>> Demonstration.of([5, 6], [7])
            Demonstration(ids=[5, 6, 7], trained=[False, False, True])
        """
        return cls([*head, *tail], [False] * len(head) + [True] * len(tail))


class Observed(NamedTuple):
    """What an environment said, cut to its limit.

    Attributes:
        ids: as plain text, none of them special.
        text: the same.
    """

    ids: list[int]
    text: str


SILENT = Observed([], "")


class Dialogue(Protocol):
    """How the episodes of one prompt are written: as ids that are only appended to."""

    def opening(self, observed: Observed) -> list[int]:
        """The ids up to the policy's first turn, with what the environment said first."""
        ...

    def reply(self, observed: Observed, said: Sequence[int]) -> list[int]:
        """The ids from behind a turn of the policy, whose last ones are given, up to its next."""
        ...


class Prompt(Protocol):
    """What samplers, collectors and evaluators ask a policy with, all in the same way.

    ``texts`` are the prompts of examples, or what a conditioning made of them; ``columns`` what
    else their examples hold (:func:`rlcomp.batch.decode_columns`), one mapping a text, of which
    the conversation is read (:data:`rlcomp.columns.CONVERSATION`).

    Attributes:
        continues: whether a response goes on where the text of the prompt ends.
    """

    continues: bool

    def check_policy(self, policy: Policy) -> None:
        """Refuse a policy that does not stop where a response ends in this format."""
        ...

    def render(self, texts: Sequence[str], columns: Columns) -> list[str]:
        """The prompts as the policy reads them, as texts, to be shown."""
        ...

    def encode(self, texts: Sequence[str], columns: Columns) -> list[list[int]]:
        """Token ids of the prompts, at least one each."""
        ...

    def conversation(self, messages: Sequence[Message], tools: Sequence[Message]) -> str:
        """The text of a conversation up to where its answer begins (:mod:`rlcomp.text.marked`)."""
        ...

    def dialogues(self, texts: Sequence[str], columns: Columns) -> list[Dialogue]:
        """How the episodes of each prompt are written."""
        ...

    def demonstrations(
        self, texts: Sequence[str], responses: Sequence[Response], columns: Columns
    ) -> list[Demonstration]:
        """Rows of prompts and given responses.

        ``responses`` are without what ends a response, which is added. Of one in turns only what
        the policy says is trained.
        """
        ...
