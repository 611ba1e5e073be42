"""Lookup agent: a loop around plain HTTP without rlcomp (``task=lookup``)."""

import json
from string import ascii_lowercase
from typing import Any
from urllib.request import Request, urlopen


def agent(base_url: str, example: dict[str, Any]) -> float:
    """Answer the policy's questions ``<a`` from the map until it answers; return 1 if right."""
    tool = dict(zip(ascii_lowercase, example["map"], strict=False))
    messages = [{"role": "user", "content": example["prompt"]}]
    for _ in range(8):
        body = {"model": "policy", "messages": messages, "stop": [">"]}
        request = Request(f"{base_url}/chat/completions", json.dumps(body).encode())
        with urlopen(request) as reply:
            text = json.load(reply)["choices"][0]["message"]["content"]
        _, asks, letter = text.rpartition("<")
        if not asks:
            return float(text == example["answer"])
        messages.append({"role": "assistant", "content": f"{text}>"})
        messages.append({"role": "user", "content": f"{tool.get(letter, '?')}|"})
    return 0.0


def untold(base_url: str, example: dict[str, Any]) -> float:
    """Run the control, whose tool has no information."""
    return agent(base_url, {**example, "map": ""})
