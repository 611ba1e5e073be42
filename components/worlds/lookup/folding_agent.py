"""Agent for ``task=lookup`` that lets the policy summarise its context."""

import json
from string import ascii_lowercase
from typing import Any
from urllib.request import Request, urlopen


def agent(base_url: str, example: dict[str, Any]) -> float:
    """Play one example and return 1 if the policy's answer is right, else 0.

    After each question of the policy and its result, such as ``a3=<a>c|``, the policy writes the
    remaining question, such as ``c2=``. That text replaces the whole context. An episode without an
    answer after eight questions counts as wrong.

    Args:
        base_url: URL of an endpoint that serves the policy.
        example: ``prompt``, ``answer`` and ``map`` of the example.
    """
    images = dict(zip(ascii_lowercase, example["map"], strict=False))
    context = example["prompt"]
    for _ in range(8):
        text = _complete(base_url, context, ">")
        _, bracket, letter = text.rpartition("<")
        if not bracket:
            return float(text == example["answer"])
        turn = f"{context}{text}>{images.get(letter, '?')}|"
        context = _complete(base_url, turn, "=") + "="
    return 0.0


def _complete(base_url: str, text: str, stop: str) -> str:
    """Return the policy's continuation of a text up to a stop text."""
    body = {"model": "policy", "prompt": text, "stop": [stop]}
    with urlopen(Request(f"{base_url}/completions", json.dumps(body).encode())) as reply:
        completion: str = json.load(reply)["choices"][0]["text"]
    return completion
