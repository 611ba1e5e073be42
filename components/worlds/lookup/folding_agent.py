"""Folding agent: lookup with contexts that the policy itself summarises."""

import json
from string import ascii_lowercase
from typing import Any
from urllib.request import Request, urlopen


def agent(base_url: str, example: dict[str, Any]) -> float:
    """Play lookup; after each question the policy writes the remaining question as a turn.

    After ``a3=<a>c|`` it may write ``c2=``. Then the old context is dropped, and the next context
    begins with that.
    """
    tool = dict(zip(ascii_lowercase, example["map"], strict=False))
    context = example["prompt"]
    for _ in range(8):
        text = _go_on(base_url, context, ">")
        _, asks, letter = text.rpartition("<")
        if not asks:
            return float(text == example["answer"])
        longer = f"{context}{text}>{tool.get(letter, '?')}|"
        context = _go_on(base_url, longer, "=") + "="
    return 0.0


def _go_on(base_url: str, text: str, stop: str) -> str:
    body = {"model": "policy", "prompt": text, "stop": [stop]}
    with urlopen(Request(f"{base_url}/completions", json.dumps(body).encode())) as reply:
        completion: str = json.load(reply)["choices"][0]["text"]
    return completion
