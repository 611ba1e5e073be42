"""Lookup agent: a loop around plain HTTP, which knows nothing of rlcomp (``task=lookup``)."""

import json
from string import ascii_lowercase
from typing import Any
from urllib.request import Request, urlopen


def agent(base_url: str, example: dict[str, Any]) -> float:
    """Tell the policy what the map makes of the letter in ``<a``, until it answers; 1 if right."""
    tool = dict(zip(ascii_lowercase, example["map"], strict=False))
    messages = [{"role": "user", "content": example["prompt"]}]
    for _ in range(8):
        body = {"model": "policy", "messages": messages, "stop": [">"]}
        request = Request(f"{base_url}/chat/completions", json.dumps(body).encode())
        with urlopen(request) as reply:
            said = json.load(reply)["choices"][0]["message"]["content"]
        _, asks, letter = said.rpartition("<")
        if not asks:
            return float(said == example["answer"])
        messages.append({"role": "assistant", "content": f"{said}>"})
        messages.append({"role": "user", "content": f"{tool.get(letter, '?')}|"})
    return 0.0


def untold(base_url: str, example: dict[str, Any]) -> float:
    """The control: a tool that knows nothing."""
    return agent(base_url, {**example, "map": ""})
