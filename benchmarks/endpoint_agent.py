"""The agent of ``endpoint.py``: plain HTTP, so that its processes start without torch."""

import json
from urllib.request import Request, urlopen


def agent(base_url, example):
    """Make ``calls`` calls in one chat; return the reward.

    An agent whose seed is a multiple of 4 forgets the first message before its last call.
    """
    messages = [{"role": "user", "content": "a" * 16}]
    for number in range(example["calls"]):
        if number + 1 == example["calls"] and example["seed"] % 4 == 0:
            messages = messages[1:] or messages
        body = json.dumps({"model": "policy", "messages": messages, "max_tokens": 8}).encode()
        with urlopen(Request(f"{base_url}/chat/completions", body)) as reply:
            answer = json.load(reply)["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": answer})
        messages.append({"role": "user", "content": "b" * 16})
    return 1.0
