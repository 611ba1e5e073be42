"""Replies, and the sampled text of each tool call."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlcomp.endpoint.request import Asked
from rlcomp.engine.session import TurnSample
from rlcomp.episodes.tool_calls import parse_calls
from rlcomp.text.token_bytes import row_bytes
from rlcomp.verify.tool_calls import outside_calls, tagged_calls


class Answer(NamedTuple):
    """One choice of a reply.

    Attributes:
        content: the text, without the stop; None if it is only tool calls.
        calls: tool calls, in OpenAI's format.
        finish: why it ended.
        tokens: bytes of each sampled token.
        log_probs: of each token, nats.
    """

    content: str | None
    calls: list[dict[str, Any]]
    finish: str
    tokens: list[bytes]
    log_probs: list[float]


def answer(turn: TurnSample, request: Asked, table: Sequence[bytes], name: str) -> Answer:
    """Convert a sampled answer to a choice of a reply.

    Args:
        turn: the sampled answer.
        request: of the client; tool calls are read if it has tools.
        table: the bytes of each token.
        name: prefix of the ids of tool calls.
    """
    tokens = [table[token] for token in turn.tokens]
    written = row_bytes(table, turn.tokens)
    ends = [written.find(stop.encode()) for stop in request.stops if stop.encode() in written]
    text = written[: min(ends, default=len(written))].decode("utf-8", "replace")
    calls = _calls(text, name) if request.tools else []
    finish = "length" if turn.truncated else "tool_calls" if calls else "stop"
    outside = "".join(outside_calls(text, tagged_calls(text)))
    content = (outside.strip() or None) if calls else text
    return Answer(content, calls, finish, tokens, turn.log_probs)


def _calls(text: str, name: str) -> list[dict[str, Any]]:
    """Return the tagged calls of a text (Hermes, Qwen); none if one is invalid: then it is text."""
    parsed_calls = parse_calls(text)
    return [
        {
            "id": f"call_{name}_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate([] if isinstance(parsed_calls, str) else parsed_calls)
    ]


def reply(
    request: Asked, answers: Sequence[Answer], prompt_tokens: int, name: str
) -> dict[str, Any]:
    """Return the body of a reply.

    Args:
        request: of the client.
        answers: one per choice.
        prompt_tokens: number of prompt tokens.
        name: of the reply.
    """
    sampled = sum(len(each.tokens) for each in answers)
    make = _chat_choice if request.chat else _text_choice
    choices = [make(number, each, request.log_probs) for number, each in enumerate(answers)]
    return {
        **_head(request, name, "chat.completion"),
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": sampled,
            "total_tokens": prompt_tokens + sampled,
        },
    }


def events(request: Asked, whole: Mapping[str, Any]) -> bytes:
    """Return a reply as server-sent events: everything in one chunk, then the end."""
    head = {**whole, "object": _head(request, "", "chat.completion.chunk")["object"]}
    usage = head.pop("usage")
    chunks: list[dict[str, Any]] = []
    for choice in whole["choices"]:
        for part in _deltas(choice) if request.chat else [choice]:
            chunks.append({**head, "choices": [part]})
    if request.usage:
        chunks.append({**head, "choices": [], "usage": usage})
    lines = [json.dumps(chunk) for chunk in chunks] + ["[DONE]"]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def _deltas(choice: Mapping[str, Any]) -> list[dict[str, Any]]:
    message = dict(choice["message"])
    if "tool_calls" in message:
        message["tool_calls"] = [
            {"index": number, **call} for number, call in enumerate(message["tool_calls"])
        ]
    first = {"index": choice["index"], "delta": message, "finish_reason": None}
    last = {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}
    return [{**first, "logprobs": choice["logprobs"]}, last]


def _head(request: Asked, name: str, kind: str) -> dict[str, Any]:
    begins, kind = ("chatcmpl", kind) if request.chat else ("cmpl", "text_completion")
    return {
        "id": f"{begins}-{name}",
        "object": kind,
        "created": int(time.time()),
        "model": "policy",
    }


def _chat_choice(number: int, each: Answer, log_probs: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": each.content}
    if each.calls:
        message["tool_calls"] = each.calls
    content = [
        {
            "token": token.decode("utf-8", "replace"),
            "logprob": value,
            "bytes": [*token],
            "top_logprobs": [],
        }
        for token, value in zip(each.tokens, each.log_probs, strict=True)
    ]
    return {
        "index": number,
        "message": message,
        "finish_reason": each.finish,
        "logprobs": {"content": content} if log_probs else None,
    }


def _text_choice(number: int, each: Answer, log_probs: bool) -> dict[str, Any]:
    texts = [token.decode("utf-8", "replace") for token in each.tokens]
    fields = {
        "tokens": texts,
        "token_logprobs": each.log_probs,
        "top_logprobs": None,
        "text_offset": [sum(map(len, texts[:place])) for place in range(len(texts))],
    }
    return {
        "index": number,
        "text": each.content or "",
        "finish_reason": each.finish,
        "logprobs": fields if log_probs else None,
    }


class Spoken:
    """The sampled texts of tool calls, so that they are reproduced exactly.

    A chat template would write a call with other white space than the policy, and the sampled
    tokens would not be recognised.
    """

    def __init__(self) -> None:
        self._told: dict[str, tuple[Answer, str]] = {}

    def note(self, answer: Answer, turn: TurnSample, table: Sequence[bytes]) -> None:
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
