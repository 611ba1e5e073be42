"""Reader of replies of an OpenAI-compatible server, which are untrusted."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple


class Completion(NamedTuple):
    """The content of one reply.

    Attributes:
        text: text of the message.
        first: probabilities of the first token's alternatives, by token; None without alternatives.
        tokens: tokens of prompt and answer together; 0 if the reply has no count.
    """

    text: str
    first: dict[str, float] | None
    tokens: int


def completion(body: bytes) -> Completion:
    """Return the only choice in the body of a reply to ``POST /chat/completions``.

    Raises:
        ValueError: the body is not JSON, has none or several choices, no text, a lone surrogate,
            or log-probs that are not numbers, are above 0 or have probabilities of a sum above 1
            (beyond rounding).

    Source:
        OpenAI API reference, "The chat completion object".

    Examples:
        >>> completion(b'{"choices": [{"message": {"content": "yes"}}]}')
        Completion(text='yes', first=None, tokens=0)
    """
    try:
        reply = json.loads(body.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    choices = _get(reply, "choices")
    if not isinstance(choices, list) or len(choices) != 1:
        raise ValueError("it does not have exactly one choice")
    text = _get(_get(choices[0], "message"), "content")
    if not isinstance(text, str):
        raise ValueError(f"the content of its message is {str(text)!r:.40}, no text")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("the content of its message holds a lone surrogate")
    tokens = _get(_get(reply, "usage"), "total_tokens")
    count = tokens if type(tokens) is int and 0 <= tokens < 1 << 40 else 0
    return Completion(text, _first_token(choices[0]), count)


def _get(value: object, name: str) -> Any:  # noqa: ANN401 - JSON
    return value.get(name) if isinstance(value, dict) else None


# Log-probs and probabilities of a server are rounded.
_MAX_LOG_PROB, _MAX_TOTAL = 1e-3, 1.01


def _first_token(choice: object) -> dict[str, float] | None:
    """Return the probabilities of the alternatives of the first token."""
    positions = _get(_get(choice, "logprobs"), "content")
    if not isinstance(positions, list) or not positions:
        return None
    alternatives = _get(positions[0], "top_logprobs")
    if not isinstance(alternatives, list) or not alternatives:
        return None
    probabilities: dict[str, float] = {}
    for entry in alternatives:
        token, log_prob = _get(entry, "token"), _get(entry, "logprob")
        is_log_prob = type(log_prob) in (int, float) and log_prob <= _MAX_LOG_PROB
        if not isinstance(token, str) or not is_log_prob:
            raise ValueError(f"{str(entry)!r:.60} is not a token with its log-prob")
        # Several tokens may have the same text. An integer may be larger than any float.
        probabilities[token] = probabilities.get(token, 0.0) + math.exp(
            max(min(log_prob, 0.0), -1e3)
        )
    if sum(probabilities.values()) > _MAX_TOTAL:
        raise ValueError("the probabilities of its first token sum to more than 1")
    return probabilities
