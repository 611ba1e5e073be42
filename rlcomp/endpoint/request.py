"""Requests of the endpoint, checked as untrusted input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlcomp.endpoint.messages import no_number, read_messages, whole_text
from rlcomp.endpoint.refused import RefusedError
from rlcomp.engine.decoding import Decoding
from rlcomp.files.untrusted import parse_json

_MOST_CHOICES = 64
_MOST_STOPS = 16
_LARGEST_SEED = 2**63
# Ignored fields: they do not change the answer, or concern things that a policy does not have.
_IGNORED = {
    *("model", "user", "store", "metadata", "service_tier", "prompt_cache_key"),
    *("safety_identifier", "parallel_tool_calls", "prompt_cache_retention"),
}
# Fields that are accepted only with the value they have by default.
_PLAIN = {
    "frequency_penalty": (0, None),
    "presence_penalty": (0, None),
    "repetition_penalty": (1, None),
    "logit_bias": (None, {}),
    "best_of": (1, None),
    "echo": (False, None),
    "suffix": ("", None),
    "top_logprobs": (0, None),
    "response_format": ({"type": "text"}, None),
    # A forced tool call is not supported: the policy samples as always.
    "tool_choice": ("auto", "none", "required", None),
}
_OWN = {
    *("temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens", "n"),
    *("stop", "seed", "logprobs", "stream", "stream_options"),
}


@dataclass(frozen=True)
class CompletionRequest:
    """A request for answers.

    Attributes:
        chat: whether it is a conversation; else it is a text to continue.
        messages: roles and contents, in the names of chat templates.
        tools: JSON schemas.
        prompt: the text to continue.
        stops: texts that end an answer; the client does not get them.
        max_tokens: of an answer; None: as many as the policy may sample.
        n: number of answers.
        seed: of the answers; None: none.
        log_probs: whether the client gets them.
        stream: whether the answer is sent as server-sent events.
        usage: whether a stream ends with the number of tokens.
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


def parsed(body: bytes) -> dict[str, Any]:
    """Return the object in the body of a request.

    Raises:
        RefusedError: it is no JSON or no object, or it has NaN or infinity.
    """
    try:
        fields = parse_json(body, no_number)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"the body is not JSON: {str(error)[:200]}") from error
    if not isinstance(fields, dict):
        raise RefusedError("the body must be a JSON object")
    return fields


def read_chat(body: Mapping[str, Any], decodings: tuple[Decoding, ...]) -> CompletionRequest:
    """Read a request of ``/v1/chat/completions``.

    Args:
        body: of the request.
        decodings: distributions of the policy that may be requested.

    Raises:
        RefusedError: it is no such request, or requests something else.
    """
    _check(body, {"messages", "tools"}, decodings)
    messages = read_messages(body.get("messages"))
    tools = [] if body.get("tool_choice") == "none" else body.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise RefusedError("tools must be a list of JSON schemas")
    log_probs = _flag(body, "logprobs")
    return CompletionRequest(True, messages, tools, log_probs=log_probs, **_numbers(body))


def read_completion(body: Mapping[str, Any], decodings: tuple[Decoding, ...]) -> CompletionRequest:
    """Read a request of ``/v1/completions``; otherwise like :func:`read_chat`."""
    _check(body, {"prompt"}, decodings)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise RefusedError("prompt must be one text: ask for each text by a request of its own")
    whole_text(prompt)
    log_probs = body.get("logprobs")
    if log_probs not in (None, False, True, 0, 1):
        raise RefusedError(
            f"logprobs is {log_probs!r:.60}: those of the sampled tokens alone are told, logprobs=1"
        )
    wants_log_probs = log_probs is not None and log_probs is not False
    return CompletionRequest(False, prompt=prompt, log_probs=wants_log_probs, **_numbers(body))


def _check(body: Mapping[str, Any], own: set[str], decodings: tuple[Decoding, ...]) -> None:
    unknown = [name for name in body if name not in _OWN | own | _IGNORED | {*_PLAIN}]
    if unknown:
        raise RefusedError(f"{unknown[0]!r:.80} is not known here: leave it out")
    for name, allowed in _PLAIN.items():
        if name in body and body[name] not in allowed:
            raise RefusedError(f"{name} is {body[name]!r:.60}: is not supported, leave it out")
    for name in ("temperature", "top_p", "top_k", "min_p"):
        value = body.get(name)
        if value is None:
            continue
        known = [getattr(each, name) for each in decodings]
        if isinstance(value, bool) or value not in known:
            raise RefusedError(
                f"{name} is {value!r:.60}, but the policy is trained as it samples, at {known[0]} "
                f"(decoding.{name}): leave it out",
                code="unsupported_value",
            )


def _numbers(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that both kinds of requests have."""
    limits = [_whole(body, name, 1, 2**31) for name in ("max_tokens", "max_completion_tokens")]
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise RefusedError("stream_options must be an object")
    return {
        "max_tokens": min((each for each in limits if each is not None), default=None),
        "n": _whole(body, "n", 1, _MOST_CHOICES) or 1,
        "seed": _whole(body, "seed", -_LARGEST_SEED, _LARGEST_SEED),
        "stops": _stops(body.get("stop")),
        "stream": _flag(body, "stream"),
        "usage": options.get("include_usage") is True,
    }


def _whole(body: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
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
        raise RefusedError("stop must hold texts, none of them empty")
    for text in texts:
        whole_text(text)
    return tuple(dict.fromkeys(texts))
