"""Folding agent: lookup in contexts that are folded, by what the policy itself wrote of them."""

import json
from string import ascii_lowercase
from typing import Any
from urllib.request import Request, urlopen


def agent(base_url: str, example: dict[str, Any]) -> float:
    """After each question the policy says what is left to ask, in a turn as any other.

    Of ``a3=<a>c|`` it may write ``c2=``: then everything else is forgotten, and the next question
    is asked in a context that begins with that.
    """
    tool = dict(zip(ascii_lowercase, example["map"], strict=False))
    context = example["prompt"]
    for _ in range(8):
        said = _go_on(base_url, context, ">")
        _, asks, letter = said.rpartition("<")
        if not asks:
            return float(said == example["answer"])
        told = f"{context}{said}>{tool.get(letter, '?')}|"
        context = _go_on(base_url, told, "=") + "="
    return 0.0


def _go_on(base_url: str, text: str, stop: str) -> str:
    body = {"model": "policy", "prompt": text, "stop": [stop]}
    with urlopen(Request(f"{base_url}/completions", json.dumps(body).encode())) as reply:
        said: str = json.load(reply)["choices"][0]["text"]
    return said
