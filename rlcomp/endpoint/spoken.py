"""Cache of sampled tool calls: clients send them back in the messages of the next call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlcomp.endpoint.reply import Answer
from rlcomp.engine.session import Said
from rlcomp.text.token_bytes import row_bytes


class Spoken:
    """The sampled texts of tool calls, so that they are reproduced exactly.

    A chat template would write a call with other white space than the policy, and the sampled
    tokens would not be recognised.
    """

    def __init__(self) -> None:
        self._told: dict[str, tuple[Answer, str]] = {}

    def note(self, answer: Answer, turn: Said, table: Sequence[bytes]) -> None:
        """Store an answer with calls."""
        if answer.calls:
            text = row_bytes(table, turn.tokens).decode("utf-8", "replace")
            self._told[answer.calls[0]["id"]] = answer, text

    def as_sampled(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Replace messages with tool calls by the text that the policy sampled.

        A message that the client has changed stays as it is.
        """
        return [self._one(message) for message in messages]

    def _one(self, message: Mapping[str, Any]) -> dict[str, Any]:
        calls = message.get("tool_calls")
        recorded = self._told.get(calls[0]["id"]) if calls else None
        if recorded is None:
            return dict(message)
        answer, text = recorded
        same = (answer.content or "") == message["content"] and _bare(answer.calls) == _bare(calls)
        return {"role": message["role"], "content": text} if same else dict(message)


def _bare(calls: Any) -> list[tuple[str, object]]:  # noqa: ANN401
    """Return names and arguments."""
    functions = [call["function"] for call in calls]
    return [(each["name"], _read(each["arguments"])) for each in functions]


def _read(arguments: object) -> object:
    return json.loads(arguments) if isinstance(arguments, str) else arguments
