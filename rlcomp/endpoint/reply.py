"""Bodies of replies in OpenAI's format, and a cache of the sampled texts of tool calls."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlcomp.endpoint.request import CompletionRequest
from rlcomp.engine.session import TurnSample
from rlcomp.episodes.tool_calls import parse_calls
from rlcomp.text.token_bytes import row_bytes
from rlcomp.verify.tool_calls import outside_calls, tagged_calls


class ReplyChoice(NamedTuple):
    """One choice of a reply.

    Attributes:
        content: the text before the stop text, without tool calls; None if there are only calls.
        calls: tool calls in OpenAI's format.
        finish: OpenAI's ``finish_reason``: ``stop``, ``length`` or ``tool_calls``.
        tokens: bytes of each sampled token.
        log_probs: log-prob of each token, nats.
    """

    content: str | None
    calls: list[dict[str, Any]]
    finish: str
    tokens: list[bytes]
    log_probs: list[float]


def choice_of_turn(
    turn: TurnSample, request: CompletionRequest, table: Sequence[bytes], name: str
) -> ReplyChoice:
    """Return a sampled answer as a choice of a reply.

    Args:
        turn: the sampled answer.
        request: the request; tool calls are parsed if it has tools.
        table: the bytes of each token.
        name: prefix of the ids of tool calls.
    """
    tokens = [table[token] for token in turn.tokens]
    sampled = row_bytes(table, turn.tokens)
    ends = [sampled.find(stop.encode()) for stop in request.stops if stop.encode() in sampled]
    text = sampled[: min(ends, default=len(sampled))].decode("utf-8", "replace")
    calls = _calls(text, name) if request.tools else []
    finish = "length" if turn.truncated else "tool_calls" if calls else "stop"
    outside = "".join(outside_calls(text, tagged_calls(text)))
    content = (outside.strip() or None) if calls else text
    return ReplyChoice(content, calls, finish, tokens, turn.log_probs)


def _calls(text: str, name: str) -> list[dict[str, Any]]:
    """Return the tagged tool calls of a text (Hermes, Qwen); none if a call is invalid."""
    parsed_calls = parse_calls(text)
    return [
        {
            "id": f"call_{name}_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate([] if isinstance(parsed_calls, str) else parsed_calls)
    ]


def reply_body(
    request: CompletionRequest, answers: Sequence[ReplyChoice], prompt_tokens: int, name: str
) -> dict[str, Any]:
    """Return the body of a reply; ``name`` is its id without prefix."""
    sampled = sum(len(each.tokens) for each in answers)
    format_choice = _chat_choice if request.chat else _text_choice
    choices = [
        format_choice(number, each, request.log_probs) for number, each in enumerate(answers)
    ]
    return {
        **_head(request, name, "chat.completion"),
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": sampled,
            "total_tokens": prompt_tokens + sampled,
        },
    }


def reply_events(request: CompletionRequest, body: Mapping[str, Any]) -> bytes:
    """Return the body of a reply as server-sent events.

    A choice has one event with its whole content; in a chat a second one with its
    ``finish_reason``. An event of usage, if requested, and ``[DONE]`` follow.
    """
    head = {**body, "object": _head(request, "", "chat.completion.chunk")["object"]}
    usage = head.pop("usage")
    chunks: list[dict[str, Any]] = []
    for choice in body["choices"]:
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


def _head(request: CompletionRequest, name: str, kind: str) -> dict[str, Any]:
    id_prefix, kind = ("chatcmpl", kind) if request.chat else ("cmpl", "text_completion")
    return {
        "id": f"{id_prefix}-{name}",
        "object": kind,
        "created": int(time.time()),
        "model": "policy",
    }


def _chat_choice(number: int, choice: ReplyChoice, log_probs: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": choice.content}
    if choice.calls:
        message["tool_calls"] = choice.calls
    content = [
        {
            "token": token.decode("utf-8", "replace"),
            "logprob": value,
            "bytes": [*token],
            "top_logprobs": [],
        }
        for token, value in zip(choice.tokens, choice.log_probs, strict=True)
    ]
    return {
        "index": number,
        "message": message,
        "finish_reason": choice.finish,
        "logprobs": {"content": content} if log_probs else None,
    }


def _text_choice(number: int, choice: ReplyChoice, log_probs: bool) -> dict[str, Any]:
    texts = [token.decode("utf-8", "replace") for token in choice.tokens]
    fields = {
        "tokens": texts,
        "token_logprobs": choice.log_probs,
        "top_logprobs": None,
        "text_offset": [sum(map(len, texts[:place])) for place in range(len(texts))],
    }
    return {
        "index": number,
        "text": choice.content or "",
        "finish_reason": choice.finish,
        "logprobs": fields if log_probs else None,
    }


class RawToolCallCache:
    """Cache of the sampled texts of tool calls, by the id of the first call.

    A chat template formats a call with other white space than the policy. With the cached text, the
    next request begins with the sampled tokens of the earlier answer.
    """

    def __init__(self) -> None:
        self._samples: dict[str, tuple[ReplyChoice, str]] = {}

    def store(self, choice: ReplyChoice, turn: TurnSample, table: Sequence[bytes]) -> None:
        """Store the sampled text of an answer if it has tool calls."""
        if choice.calls:
            text = row_bytes(table, turn.tokens).decode("utf-8", "replace")
            self._samples[choice.calls[0]["id"]] = choice, text

    def as_sampled(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages, with the sampled texts of unchanged tool calls."""
        return [self._restore(message) for message in messages]

    def _restore(self, message: Mapping[str, Any]) -> dict[str, Any]:
        calls = message.get("tool_calls")
        sample = self._samples.get(calls[0]["id"]) if calls else None
        if sample is None:
            return dict(message)
        choice, text = sample
        is_unchanged = (choice.content or "") == message["content"] and _names_and_arguments(
            choice.calls
        ) == _names_and_arguments(calls)
        return {"role": message["role"], "content": text} if is_unchanged else dict(message)


def _names_and_arguments(calls: Any) -> list[tuple[str, object]]:  # noqa: ANN401
    """Return the name and the parsed arguments of each tool call."""
    functions = [call["function"] for call in calls]
    return [(each["name"], _parse_arguments(each["arguments"])) for each in functions]


def _parse_arguments(arguments: object) -> object:
    return json.loads(arguments) if isinstance(arguments, str) else arguments
