"""Replies of the endpoint: answers of the policy in the form of OpenAI's API."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlcomp.endpoint.request import Asked
from rlcomp.engine.session import Said
from rlcomp.episodes.tool_calls import parse_calls
from rlcomp.text.token_bytes import row_bytes
from rlcomp.verify.tool_calls import outside_calls, tagged_calls


class Answer(NamedTuple):
    """One choice of a reply.

    Attributes:
        content: the text, without what stopped it; None where all of it is tool calls.
        calls: of tools, as OpenAI writes them.
        finish: why it ended.
        tokens: bytes of each sampled token.
        log_probs: of each, nats.
    """

    content: str | None
    calls: list[dict[str, Any]]
    finish: str
    tokens: list[bytes]
    log_probs: list[float]


def answer(said: Said, asked: Asked, table: Sequence[bytes], name: str) -> Answer:
    """What a client is told of an answer.

    Args:
        said: by the policy.
        asked: for; tool calls are read where tools were given.
        table: the bytes of each token.
        name: begins the ids of tool calls.
    """
    tokens = [table[token] for token in said.tokens]
    written = row_bytes(table, said.tokens)
    ends = [written.find(stop.encode()) for stop in asked.stops if stop.encode() in written]
    text = written[: min(ends, default=len(written))].decode("utf-8", "replace")
    calls = _calls(text, name) if asked.tools else []
    finish = "length" if said.truncated else "tool_calls" if calls else "stop"
    outside = "".join(outside_calls(text, tagged_calls(text)))
    content = (outside.strip() or None) if calls else text
    return Answer(content, calls, finish, tokens, said.log_probs)


def _calls(text: str, name: str) -> list[dict[str, Any]]:
    """The calls of a text in tags (Hermes, Qwen); none where one of them is wrong: it is text."""
    found = parse_calls(text)
    return [
        {
            "id": f"call_{name}_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate([] if isinstance(found, str) else found)
    ]


def reply(asked: Asked, answers: Sequence[Answer], prompt_tokens: int, name: str) -> dict[str, Any]:
    """The body of a reply.

    Args:
        asked: for.
        answers: each choice.
        prompt_tokens: that were read.
        name: of the reply.
    """
    sampled = sum(len(each.tokens) for each in answers)
    make = _chat_choice if asked.chat else _text_choice
    choices = [make(number, each, asked.log_probs) for number, each in enumerate(answers)]
    return {
        **_head(asked, name, "chat.completion"),
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": sampled,
            "total_tokens": prompt_tokens + sampled,
        },
    }


def events(asked: Asked, whole: Mapping[str, Any]) -> bytes:
    """A reply as server-sent events: everything in one chunk, then the end."""
    head = {**whole, "object": _head(asked, "", "chat.completion.chunk")["object"]}
    usage = head.pop("usage")
    chunks: list[dict[str, Any]] = []
    for choice in whole["choices"]:
        for part in _deltas(choice) if asked.chat else [choice]:
            chunks.append({**head, "choices": [part]})
    if asked.usage:
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


def _head(asked: Asked, name: str, kind: str) -> dict[str, Any]:
    begins, kind = ("chatcmpl", kind) if asked.chat else ("cmpl", "text_completion")
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
    told = [
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
        "logprobs": {"content": told} if log_probs else None,
    }


def _text_choice(number: int, each: Answer, log_probs: bool) -> dict[str, Any]:
    texts = [token.decode("utf-8", "replace") for token in each.tokens]
    told = {
        "tokens": texts,
        "token_logprobs": each.log_probs,
        "top_logprobs": None,
        "text_offset": [sum(map(len, texts[:place])) for place in range(len(texts))],
    }
    return {
        "index": number,
        "text": each.content or "",
        "finish_reason": each.finish,
        "logprobs": told if log_probs else None,
    }
