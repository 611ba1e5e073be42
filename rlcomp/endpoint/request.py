"""Requests of the endpoint, checked as untrusted input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlcomp.endpoint.server import RefusedError
from rlcomp.engine.decoding import Decoding
from rlcomp.files.untrusted import parse_json

_ROLES = ("system", "developer", "user", "assistant", "tool")
_MOST_MESSAGES = 1000
_MOST_CHOICES = 64
_MOST_STOPS = 16
_LARGEST_SEED = 2**63
# Fields that do not affect the answer, or that belong to a feature that a policy lacks.
_IGNORED = {
    *("model", "user", "store", "metadata", "service_tier", "prompt_cache_key"),
    *("safety_identifier", "parallel_tool_calls", "prompt_cache_retention"),
}
# Fields that are accepted only with their default values.
_DEFAULTS = {
    "frequency_penalty": (0, None),
    "presence_penalty": (0, None),
    "repetition_penalty": (1, None),
    "logit_bias": (None, {}),
    "best_of": (1, None),
    "echo": (False, None),
    "suffix": ("", None),
    "top_logprobs": (0, None),
    "response_format": ({"type": "text"}, None),
    # No forced tool call: "required" does not change the sampling.
    "tool_choice": ("auto", "none", "required", None),
}
_SUPPORTED = {
    *("temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens", "n"),
    *("stop", "seed", "logprobs", "stream", "stream_options"),
}


@dataclass(frozen=True)
class CompletionRequest:
    """A checked request.

    Attributes:
        chat: whether it is a conversation; else a text to continue.
        messages: messages in the format of chat templates.
        tools: JSON schemas.
        prompt: the text to continue.
        stops: texts that end an answer; not part of the reply.
        max_tokens: maximum number of tokens of an answer; None for no limit.
        n: number of answers.
        seed: seed of the answers, or None.
        log_probs: whether the reply has log-probs.
        stream: whether the reply is a stream of server-sent events.
        usage: whether a stream ends with the numbers of tokens.
    """

    chat: bool
    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    prompt: str = ""
    stops: tuple[str, ...] = ()
    max_tokens: int | None = None
    n: int = 1
    seed: int | None = None
    log_probs: bool = False
    stream: bool = False
    usage: bool = False


def parse_body(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        RefusedError: the body is not a JSON object, or has NaN, infinity or a repeated name.
    """
    try:
        fields = parse_json(body, refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"the body is not JSON: {str(error)[:200]}") from error
    if not isinstance(fields, dict):
        raise RefusedError("the body must be a JSON object")
    return fields


def read_chat(body: Mapping[str, Any], decodings: tuple[Decoding, ...]) -> CompletionRequest:
    """Read a request of ``/v1/chat/completions``.

    Args:
        body: the JSON object.
        decodings: distributions of the policy that may be requested, the default one first.

    Raises:
        RefusedError: a field is invalid or not supported.
    """
    _check(body, {"messages", "tools"}, decodings)
    messages = read_messages(body.get("messages"))
    tools = [] if body.get("tool_choice") == "none" else body.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise RefusedError("tools must be a list of JSON schemas")
    log_probs = _flag(body, "logprobs")
    return CompletionRequest(True, messages, tools, log_probs=log_probs, **_common_fields(body))


def read_completion(body: Mapping[str, Any], decodings: tuple[Decoding, ...]) -> CompletionRequest:
    """Read a request of ``/v1/completions``; like :func:`read_chat`."""
    _check(body, {"prompt"}, decodings)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise RefusedError("prompt must be one text: send a request for each text")
    check_text(prompt)
    log_probs = body.get("logprobs")
    if log_probs not in (None, False, True, 0, 1):
        raise RefusedError(
            f"logprobs is {log_probs!r:.60}: must be 1, for the sampled tokens alone"
        )
    has_log_probs = log_probs is not None and log_probs is not False
    return CompletionRequest(False, prompt=prompt, log_probs=has_log_probs, **_common_fields(body))


def _check(body: Mapping[str, Any], fields: set[str], decodings: tuple[Decoding, ...]) -> None:
    unknown = [name for name in body if name not in _SUPPORTED | fields | _IGNORED | {*_DEFAULTS}]
    if unknown:
        raise RefusedError(f"{unknown[0]!r:.80} is not supported: leave it out")
    for name, allowed in _DEFAULTS.items():
        if name in body and body[name] not in allowed:
            raise RefusedError(
                f"{name} is {body[name]!r:.60}: only its default is supported, leave it out"
            )
    for name in ("temperature", "top_p", "top_k", "min_p"):
        value = body.get(name)
        if value is None:
            continue
        supported = [getattr(each, name) for each in decodings]
        if isinstance(value, bool) or value not in supported:
            raise RefusedError(
                f"{name} is {value!r:.60}, but the policy samples and is trained at {supported[0]} "
                f"(decoding.{name}): leave it out",
                code="unsupported_value",
            )


def _common_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of both kinds of requests."""
    limits = [_integer(body, name, 1, 2**31) for name in ("max_tokens", "max_completion_tokens")]
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise RefusedError("stream_options must be an object")
    return {
        "max_tokens": min((each for each in limits if each is not None), default=None),
        "n": _integer(body, "n", 1, _MOST_CHOICES) or 1,
        "seed": _integer(body, "seed", -_LARGEST_SEED, _LARGEST_SEED),
        "stops": _stops(body.get("stop")),
        "stream": _flag(body, "stream"),
        "usage": options.get("include_usage") is True,
    }


def _integer(body: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int or not least <= value <= most:
        raise RefusedError(f"{name} is {value!r:.60}: must be a whole number, {least} to {most}")
    return value


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value not in (None, False, True):
        raise RefusedError(f"{name} is {value!r:.60}: must be true or false")
    return bool(value)


def _stops(value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value or []
    if not isinstance(texts, list) or len(texts) > _MOST_STOPS:
        raise RefusedError(f"stop must be a text or a list of at most {_MOST_STOPS}")
    if not all(isinstance(text, str) and text for text in texts):
        raise RefusedError("stop must have non-empty texts")
    for text in texts:
        check_text(text)
    return tuple(dict.fromkeys(texts))


def read_messages(messages: object) -> list[dict[str, Any]]:
    """Return messages for chat templates: contents as texts, arguments of calls as objects.

    Raises:
        RefusedError: a message is invalid, or has parts other than text.
    """
    if not isinstance(messages, list) or not 0 < len(messages) <= _MOST_MESSAGES:
        raise RefusedError(f"messages must be a list of 1 to {_MOST_MESSAGES} messages")
    return [*map(_message, messages)]


def refuse_constant(name: str) -> float:
    """Raise a ValueError for NaN and infinity in JSON."""
    raise ValueError(f"{name} is not a number")


def _message(message: object) -> dict[str, Any]:
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        raise RefusedError(f"a message must be an object with a role, one of {', '.join(_ROLES)}")
    fields: dict[str, Any] = {"role": message["role"], "content": _content(message.get("content"))}
    for name in ("name", "tool_call_id"):
        if message.get(name) is not None:
            fields[name] = _text(name, message[name])
    if message.get("tool_calls"):
        calls = message["tool_calls"]
        if not isinstance(calls, list):
            raise RefusedError("tool_calls must be a list")
        fields["tool_calls"] = [*map(_call, calls)]
    return fields


def _content(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else {} for part in content]
        if any(part.get("type") != "text" for part in parts):
            raise RefusedError(
                "the parts of a content must be of type text: the policy reads no others"
            )
        return "".join(_text("text", part.get("text")) for part in parts)
    return _text("content", content)


def _call(call: object) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise RefusedError("a tool call must have a function with a name and arguments")
    arguments: object = function.get("arguments", "{}")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}", parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            raise RefusedError("the arguments of a tool call are not JSON") from error
    assert isinstance(call, dict)
    fields = {"name": _text("name", function.get("name")), "arguments": arguments}
    return {"id": _text("id", call.get("id", "")), "type": "function", "function": fields}


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise RefusedError(f"{name} is {value!r:.60}: must be a text")
    return check_text(value)


def check_text(text: str) -> str:
    """Return a text; refuse one with a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RefusedError("a text holds a lone surrogate") from error
    return text
