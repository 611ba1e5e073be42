"""Rendering of a chat template in a worker process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformers.utils.chat_template_utils import render_jinja_template

from rlcomp.errors import in_one_line


def render_template(
    source: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    add_generation_prompt: bool,
    arguments: Mapping[str, Any],
    longest: int,
) -> dict[str, object]:
    """Return the text that a template makes of messages, or its error.

    Args:
        source: the Jinja template.
        messages: at least one message.
        tools: JSON schemas of tools.
        add_generation_prompt: whether the text ends with the opening of an assistant's turn.
        arguments: other variables of the template.
        longest: maximum number of characters of the text.

    Returns:
        ``text`` (cut one character after the limit) and ``length``, or ``error``.
    """
    try:
        # Templates test whether a message has a key: null must count as missing.
        entries = [
            {key: value for key, value in message.items() if value is not None}
            for message in messages
        ]
        (text,), _ = render_jinja_template(
            conversations=[entries],
            tools=tools,
            chat_template=source,
            add_generation_prompt=add_generation_prompt,
            **arguments,
        )
    except MemoryError:
        raise
    except Exception as error:  # untrusted Jinja may raise any error
        return {"error": in_one_line(error)}
    return {"text": text[: longest + 1], "length": len(text)}
