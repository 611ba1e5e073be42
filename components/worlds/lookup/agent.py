"""Agent for ``task=lookup`` that calls the policy by plain HTTP, without rlcomp."""

import json
from string import ascii_lowercase
from typing import Any
from urllib.request import Request, urlopen


def agent(base_url: str, example: dict[str, Any]) -> float:
    """Play one example and return 1 if the policy's answer is right, else 0.

    The example's map answers the policy's questions, such as ``<a>``. A response without a question
    is the answer. An episode without an answer after eight responses counts as wrong.

    Args:
        base_url: URL of an endpoint that serves the policy.
        example: ``prompt``, ``answer`` and ``map`` of the example.
    """
    answers = dict(zip(ascii_lowercase, example["map"], strict=False))
    messages = [{"role": "user", "content": example["prompt"]}]
    for _ in range(8):
        body = {"model": "policy", "messages": messages, "stop": [">"]}
        request = Request(f"{base_url}/chat/completions", json.dumps(body).encode())
        with urlopen(request) as reply:
            text = json.load(reply)["choices"][0]["message"]["content"]
        _, bracket, letter = text.rpartition("<")
        if not bracket:
            return float(text == example["answer"])
        messages.append({"role": "assistant", "content": f"{text}>"})
        messages.append({"role": "user", "content": f"{answers.get(letter, '?')}|"})
    return 0.0


def untold(base_url: str, example: dict[str, Any]) -> float:
    """Play one example as a control: without its map, so that every question gets ``?``."""
    return agent(base_url, {**example, "map": ""})
