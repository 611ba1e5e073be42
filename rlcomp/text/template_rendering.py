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
    due: bool,
    arguments: Mapping[str, Any],
    longest: int,
) -> dict[str, object]:
    """The text that a template makes of messages, or why it makes none.

    Args:
        source: the Jinja.
        messages: at least one.
        tools: JSON schemas.
        due: whether what opens an assistant's turn ends the text.
        arguments: what else the template is given.
        longest: how many characters the text may have.

    Returns:
        ``text`` (cut one character behind the limit) and ``length``, or ``error``.
    """
    try:
        (text,), _ = render_jinja_template(
            conversations=[[{k: v for k, v in one.items() if v is not None} for one in messages]],
            tools=tools,
            chat_template=source,
            add_generation_prompt=due,
            **arguments,
        )
    except MemoryError:
        raise
    except Exception as error:  # Jinja of a stranger: anything
        return {"error": in_one_line(error)}
    return {"text": text[: longest + 1], "length": len(text)}
