"""Prompt formats: conversion of an example's prompt to the token ids that a policy reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rlcomp.interfaces.policy import Policy

Columns = Sequence[Mapping[str, object]]
# A message has a role and a content; a tool is given by its schema.
Message = dict[str, Any]
# A text, or alternate turns of the policy and of an environment, the policy's first.
Response = str | tuple[str, ...]


class Demonstration(NamedTuple):
    """Row to imitate.

    Attributes:
        ids: token ids of prompt and response.
        trained: True for the ids that the policy learns: the response mask, which may have holes.
    """

    ids: list[int]
    trained: list[bool]

    @classmethod
    def of(cls, prompt: Sequence[int], response: Sequence[int]) -> Demonstration:
        """Return the row of a prompt and its response.

        Args:
            prompt: ids of the prompt, which are not trained.
            response: ids of the response, which are trained.

        Examples:
            >>> Demonstration.of([5, 6], [7])
            Demonstration(ids=[5, 6, 7], trained=[False, False, True])
        """
        return cls([*prompt, *response], [False] * len(prompt) + [True] * len(response))


class Observation(NamedTuple):
    """Observation of an environment, cut to its limit.

    Attributes:
        ids: token ids of the text, encoded as plain text without special tokens.
        text: the text.
    """

    ids: list[int]
    text: str


NO_OBSERVATION = Observation([], "")


class Dialogue(Protocol):
    """Encoder of the episodes of one prompt; later turns never change the ids of earlier ones."""

    def opening(self, observed: Observation) -> list[int]:
        """Return the ids up to the policy's first turn, including the first observation."""
        ...

    def reply(self, observed: Observation, turn_ids: Sequence[int]) -> list[int]:
        """Return the ids between a turn of the policy and its next turn.

        Args:
            observed: answer of the environment.
            turn_ids: last ids of the policy's turn.
        """
        ...


class PromptFormat(Protocol):
    """Prompt format, shared by samplers, collectors and evaluators.

    ``texts`` are the prompts of examples, perhaps with a preference before them
    (:class:`rlcomp.pareto.conditioning.Conditioning`). ``columns`` are the examples' other entries
    (:func:`rlcomp.batch.decode_columns`), one mapping for each text; only the conversation is read
    (:data:`rlcomp.columns.CONVERSATION`).

    Attributes:
        continues: True if a response continues the text of the prompt.
    """

    continues: bool

    def check_policy(self, policy: Policy) -> None:
        """Refuse a policy that does not stop at the end of a response in this format."""
        ...

    def render(self, texts: Sequence[str], columns: Columns) -> list[str]:
        """Return the prompts as the policy reads them, as texts for display."""
        ...

    def encode(self, texts: Sequence[str], columns: Columns) -> list[list[int]]:
        """Return token ids of the prompts, at least one each."""
        ...

    def conversation(self, messages: Sequence[Message], tools: Sequence[Message]) -> str:
        """Return a conversation's text up to its answer (:mod:`rlcomp.text.special_tokens`)."""
        ...

    def dialogues(self, texts: Sequence[str], columns: Columns) -> list[Dialogue]:
        """Return for each prompt the encoder of its episodes."""
        ...

    def demonstrations(
        self, texts: Sequence[str], responses: Sequence[Response], columns: Columns
    ) -> list[Demonstration]:
        """Return rows of prompts and given responses.

        This method adds the token that ends a response. In a response with turns only the turns of
        the policy are trained.
        """
        ...
